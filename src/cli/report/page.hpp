#pragma once
#include <string>

#include "cli/report/report_data.hpp"
#include "cli/transcript.hpp"

namespace graphtap::cli {

/// The whole report: one HTML page that needs nothing else (style, script and figures are inside,
/// no address is loaded). Without a script every figure is shown; with one, a choice of request and
/// hook.
[[nodiscard]] std::string report_page(const ReportData& data, const Transcript& transcript);

}  // namespace graphtap::cli
