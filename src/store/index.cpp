#include "store/index.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "store/index_rows.hpp"

namespace graphtap::store {

const char* const kIndexSchema = R"sql(
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (run INTEGER PRIMARY KEY, id TEXT, name TEXT, model TEXT, started_unix_ns INTEGER,
  graphtap TEXT);
CREATE TABLE hooks (run INTEGER, hook INTEGER, name TEXT, type TEXT, layer INTEGER, dtype TEXT,
  row_shape TEXT, row_basis TEXT, ordinals INTEGER, PRIMARY KEY (run, hook)) WITHOUT ROWID;
CREATE TABLE segments (segment INTEGER PRIMARY KEY, run INTEGER, bytes INTEGER, frames INTEGER,
  closed INTEGER);
CREATE TABLE steps (segment INTEGER, frame INTEGER, run INTEGER, offset INTEGER, bytes INTEGER,
  ticket INTEGER, part INTEGER, lane INTEGER, step INTEGER, kind INTEGER, set_version INTEGER,
  end_unix_ns INTEGER, records INTEGER, gaps INTEGER, payload_bytes INTEGER,
  PRIMARY KEY (segment, frame)) WITHOUT ROWID;
CREATE TABLE requests (run INTEGER, serial INTEGER, prompt_tokens INTEGER, id TEXT,
  PRIMARY KEY (run, serial)) WITHOUT ROWID;
CREATE INDEX requests_by_id ON requests (id);
CREATE TABLE spans (segment INTEGER, run INTEGER, request INTEGER, first_frame INTEGER,
  last_frame INTEGER, frames INTEGER, first_token INTEGER, end_token INTEGER,
  PRIMARY KEY (run, request, segment, first_frame)) WITHOUT ROWID;
CREATE INDEX spans_by_segment ON spans (segment);
CREATE TABLE events (segment INTEGER, place INTEGER, run INTEGER, request INTEGER, kind INTEGER,
  begin_token INTEGER, end_token INTEGER, valid INTEGER, records INTEGER, gaps INTEGER,
  PRIMARY KEY (segment, place)) WITHOUT ROWID;
CREATE INDEX events_by_request ON events (run, request);
CREATE TABLE hook_totals (segment INTEGER, run INTEGER, hook INTEGER, records INTEGER, rows INTEGER,
  tokens INTEGER, bytes INTEGER, PRIMARY KEY (segment, hook)) WITHOUT ROWID;
CREATE TABLE gap_totals (segment INTEGER, run INTEGER, hook INTEGER, reason INTEGER, count INTEGER,
  PRIMARY KEY (segment, hook, reason)) WITHOUT ROWID;
)sql";

struct Index::Statements {
  Statement run, hook, segment, step, request, span, event, hook_total, gap_total, about;
};

namespace {

Status put(Statement& statement, const auto& row) {
  const auto ints = values(row);
  return std::apply([&](auto... value) { return statement.run(value...); }, ints);
}

Status put_all(Statement& statement, const auto& rows) {
  for (const auto& row : rows) {
    if (Status s = put(statement, row); !s.ok()) return s;
  }
  return {};
}

}  // namespace

void IndexBatch::add(const store::Segment& segment) {
  const SegmentDirectory& directory = segment.directory();
  const std::uint64_t number = segment.number();
  const std::uint32_t run = segment.head().run_number;
  Segment row{number, run, segment.file_bytes() - segment.tail().bytes, directory.frames(),
              segment.closed()};
  segments.push_back(row);
  for (std::size_t i = 0; i < directory.frames(); ++i) {
    const FrameEntry entry = directory.frame(i);
    if (static_cast<FrameKind>(entry.kind) != FrameKind::step) continue;
    frames.push_back({number, run, static_cast<std::uint32_t>(i), entry});
  }
  for (std::size_t i = 0; i < directory.ranges(); ++i)
    ranges.push_back({number, run, 0, directory.range(i)});
  for (std::size_t i = 0; i < directory.events(); ++i) {
    events.push_back({number, run, static_cast<std::uint32_t>(i), directory.event(i)});
  }
  for (std::size_t i = 0; i < directory.requests(); ++i) {
    const RequestEntry request = directory.request(i);
    requests.push_back(
        {run, request.serial, request.prompt_tokens, std::string(directory.id(request))});
  }
  directory.hook_totals([&](const HookTotalEntry& total) {
    hook_totals.push_back({number, run, 0, total});
  });
  directory.gap_totals([&](const GapTotalEntry& total) {
    gap_totals.push_back({number, run, 0, total});
  });
}

Index::Index(std::unique_ptr<Database> db, std::unique_ptr<Statements> statements)
    : db_(std::move(db)), statements_(std::move(statements)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() {
  statements_.reset();  // before the connection
}

Result<Index> Index::prepare(Database opened) {
  auto db = std::make_unique<Database>(std::move(opened));
  std::optional<Status> failed;
  const auto statement = [&](const char* sql) -> std::optional<Statement> {
    if (failed) return std::nullopt;
    Result<Statement> prepared = Statement::prepare(*db, sql);
    if (!prepared.ok()) failed = prepared.status();
    return prepared.ok() ? std::optional(std::move(prepared).value()) : std::nullopt;
  };
  auto run = statement("REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)");
  auto hook = statement("REPLACE INTO hooks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  auto segment = statement("REPLACE INTO segments VALUES (?, ?, ?, ?, ?)");
  auto step = statement("REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  auto request = statement("INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?)");
  auto span = statement("REPLACE INTO spans VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  auto event = statement("REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  auto hook_total = statement("REPLACE INTO hook_totals VALUES (?, ?, ?, ?, ?, ?, ?)");
  auto gap_total = statement("REPLACE INTO gap_totals VALUES (?, ?, ?, ?, ?)");
  auto about = statement("REPLACE INTO about VALUES (?, ?)");
  if (failed) return *failed;
  auto statements = std::make_unique<Statements>(
      Statements{std::move(*run), std::move(*hook), std::move(*segment), std::move(*step),
                 std::move(*request), std::move(*span), std::move(*event), std::move(*hook_total),
                 std::move(*gap_total), std::move(*about)});
  return Index(std::move(db), std::move(statements));
}

Result<Index> Index::create(const std::filesystem::path& path, const Id& store_id) {
  remove_index(path);
  Result<Database> db = Database::open(path, Database::Mode::create);
  if (!db.ok()) return db.status();
  // Not synced: after a power loss the index is not marked closed, and is built anew.
  // One transaction: whoever looks meanwhile finds nothing yet, or all of it.
  for (const char* sql :
       {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF", "BEGIN IMMEDIATE", kIndexSchema}) {
    if (Status s = db.value().run(sql); !s.ok()) return s;
  }
  Result<Index> index = prepare(std::move(db).value());
  if (!index.ok()) return index;
  Statement& about = index.value().statements_->about;
  const auto set = [&](const char* key, const std::string& value) { return about.run(key, value); };
  if (Status s = set("version", std::to_string(kIndexVersion)); !s.ok()) return s;
  if (Status s = set("store", to_hex(store_id)); !s.ok()) return s;
  if (Status s = set("state", "open"); !s.ok()) return s;
  if (Status s = index.value().db_->run("COMMIT"); !s.ok()) return s;
  return index;
}

Result<Index> Index::open(const std::filesystem::path& path, const Id& store_id) {
  Result<Database> db = Database::open(path, Database::Mode::write);
  if (!db.ok()) return db.status();
  {
    Result<Statement> ask =
        Statement::prepare(db.value(),
                           "SELECT (SELECT value FROM about WHERE key = 'version'), (SELECT value "
                           "FROM about WHERE key = "
                           "'store'), (SELECT value FROM about WHERE key = 'state')");
    if (!ask.ok()) return ask.status();
    if (!ask.value().next() || ask.value().text(0) != std::to_string(kIndexVersion) ||
        ask.value().text(1) != to_hex(store_id) || ask.value().text(2) != "closed") {
      return Status(Code::corrupt,
                    path.string() + ": not this store's index, or it was not closed");
    }
  }
  for (const char* sql : {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = OFF"}) {
    if (Status s = db.value().run(sql); !s.ok()) return s;
  }
  Result<Index> index = prepare(std::move(db).value());
  if (!index.ok()) return index;
  if (Status s = index.value().statements_->about.run("state", "open"); !s.ok()) return s;
  return index;
}

Status Index::apply(const IndexBatch& batch) {
  if (batch.empty()) return {};
  if (Status s = db_->run("BEGIN IMMEDIATE"); !s.ok()) return s;
  Status status = apply_rows(batch);
  if (status.ok()) status = db_->run("COMMIT");
  if (!status.ok()) {
    // What failed is reported; that there is nothing to roll back would be no news.
    static_cast<void>(db_->run("ROLLBACK"));
  }
  return status;
}

Status Index::apply_rows(const IndexBatch& batch) {
  for (const auto& run : batch.runs) {
    if (Status s = statements_->run.run(run->number, run->id, run->name, run->model,
                                        run->started_unix_ns, run->graphtap_version);
        !s.ok()) {
      return s;
    }
    for (const Hook& hook : run->hooks) {
      const std::string shape = nlohmann::json(hook.row_shape).dump();
      if (Status s = statements_->hook.run(run->number, hook.id, hook.name, hook.type, hook.layer,
                                           to_string(hook.dtype), shape, to_string(hook.rows),
                                           hook.ordinals);
          !s.ok()) {
        return s;
      }
    }
  }
  for (const auto& segment : batch.segments) {
    if (Status s = statements_->segment.run(segment.number, segment.run, segment.bytes,
                                            segment.frames, segment.closed);
        !s.ok()) {
      return s;
    }
  }
  for (const auto& request : batch.requests) {
    if (Status s = statements_->request.run(request.run, request.serial, request.prompt_tokens,
                                            request.id);
        !s.ok()) {
      return s;
    }
  }
  if (Status s = put_all(statements_->step, batch.frames); !s.ok()) return s;
  if (Status s = put_all(statements_->span, batch.ranges); !s.ok()) return s;
  if (Status s = put_all(statements_->event, batch.events); !s.ok()) return s;
  if (Status s = put_all(statements_->hook_total, batch.hook_totals); !s.ok()) return s;
  if (Status s = put_all(statements_->gap_total, batch.gap_totals); !s.ok()) return s;
  return batch.removed.empty() ? Status{} : remove(batch.removed);
}

Status Index::remove(const std::vector<std::uint64_t>& segments) {
  const std::string these = fmt::format("segment IN ({})", fmt::join(segments, ", "));
  for (const char* table : {"segments", "steps", "spans", "events", "hook_totals", "gap_totals"}) {
    if (Status s = db_->run(fmt::format("DELETE FROM {} WHERE {}", table, these).c_str()); !s.ok())
      return s;
  }
  // What no segment names any more, as if the index were built from those that are there. The
  // newest run is the writer's: its first segment may be too young to have rows.
  for (const char* sql :
       {"DELETE FROM requests WHERE NOT EXISTS (SELECT 1 FROM spans WHERE spans.run = requests.run "
        "AND spans.request = requests.serial) AND NOT EXISTS (SELECT 1 FROM events WHERE "
        "events.run = requests.run AND events.request = requests.serial)",
        "DELETE FROM hooks WHERE run NOT IN (SELECT run FROM segments) AND run < (SELECT max(run) "
        "FROM runs)",
        "DELETE FROM runs WHERE run NOT IN (SELECT run FROM segments) AND run < (SELECT max(run) "
        "FROM runs)"}) {
    if (Status s = db_->run(sql); !s.ok()) return s;
  }
  return {};
}

Status Index::close() {
  if (Status s = statements_->about.run("state", "closed"); !s.ok()) return s;
  statements_.reset();
  // Someone who queries right now keeps it in its WAL form: whole as well, if not one file.
  static_cast<void>(db_->run("PRAGMA journal_mode = DELETE"));
  db_.reset();
  return {};
}

Result<std::vector<IndexBatch::Segment>> Index::covered() {
  Result<Statement> ask = Statement::prepare(
      *db_, "SELECT segment, run, bytes, frames, closed FROM segments ORDER BY segment");
  if (!ask.ok()) return ask.status();
  std::vector<IndexBatch::Segment> segments;
  Statement& row = ask.value();
  while (row.next()) {
    segments.push_back({row.unsigned_number(0), static_cast<std::uint32_t>(row.number(1)),
                        row.unsigned_number(2), row.unsigned_number(3), row.number(4) != 0});
  }
  if (Status s = row.status(); !s.ok()) return s;
  return segments;
}

void remove_index(const std::filesystem::path& path) {
  std::error_code
      ignored;  // what is not there needs no removing; what cannot be removed fails to open
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::filesystem::path file = path;
    file += suffix;
    std::filesystem::remove(file, ignored);
  }
}

}  // namespace graphtap::store
