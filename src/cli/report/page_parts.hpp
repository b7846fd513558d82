#pragma once
#include <string>

#include "cli/report/report_data.hpp"

namespace graphtap::cli {

/// Parts of the page that stand for themselves, each a heading and what is below it; empty where
/// there is nothing to say.
[[nodiscard]] std::string runs_html(const ReportData& data);
[[nodiscard]] std::string timeline_html(const ReportData& data);
[[nodiscard]] std::string requests_html(const ReportData& data);
[[nodiscard]] std::string bytes_html(const ReportData& data);
[[nodiscard]] std::string intervals_html(const ReportData& data);

}  // namespace graphtap::cli
