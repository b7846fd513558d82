#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cli/report/report_data.hpp"

namespace graphtap::cli {

/// What the page shows as one document: times in ns (of the epoch where they end in "unix_ns"),
/// sizes in bytes, token ranges as [begin, end). Of a map, `norms` is a list a row: a number, null
/// where nothing was captured, "nan" (a value is not finite), "gap:<reason>" or "not_computed";
/// `lost` beside a number counts rows that are gaps, as [row, column, rows].
[[nodiscard]] nlohmann::json report_json(const ReportData& data);

}  // namespace graphtap::cli
