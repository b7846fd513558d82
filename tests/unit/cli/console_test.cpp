#include "cli/console.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/report/html_text.hpp"
#include "cli/text_table.hpp"

namespace graphtap::cli {
namespace {

TEST(Console, E_TextFromOutsideCannotDriveTheTerminal) {
  EXPECT_EQ(one_line("plain, Grüße, 日本"), "plain, Grüße, 日本");
  EXPECT_EQ(one_line("a\nb\tc\r"), "a\\nb\\tc\\x0d");
  EXPECT_EQ(one_line("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
  EXPECT_EQ(one_line("\xc2\x9b"
                     "31m"),
            "\\x9b31m");  // CSI as one C1 character
  EXPECT_EQ(one_line("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(one_line("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate is no character
  EXPECT_EQ(one_line("abcdef", 3), "abc…");
  EXPECT_EQ(one_line("日本語", 3), "日本語");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Console, E_TextFromOutsideCannotBecomeMarkup) {
  EXPECT_EQ(html_text("<script>alert('x')</script> & \"y\""),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;");
  EXPECT_EQ(html_text("]]>\x01\xff"), "]]&gt;\\x01\\xff");
}

TEST(Console, ProgressIsOnlyForTerminals) {
  std::istringstream in;
  std::ostringstream out, err;
  {
    Console console{in, out, err, false};
    ProgressLine line(console, true);
    line.show("step 1", true);
  }
  EXPECT_EQ(err.str(), "");
  {
    Console console{in, out, err, true};
    ProgressLine line(console, true);
    line.show("step 1", true);
    line.show("step 2");  // too soon after the first
  }
  EXPECT_EQ(err.str(), "\r\x1b[2Kstep 1\r\x1b[2K");
  EXPECT_EQ(out.str(), "");
}

TEST(TextTable, AlignsByCharactersNotBytes) {
  TextTable table({{"name"}, {"n", true}});
  table.add({"é", "1"});
  table.add({"long name", "1,000"});
  table.add({"x"});
  EXPECT_EQ(table.text(2),
            "  name           n\n"
            "  é              1\n"
            "  long name  1,000\n"
            "  x\n");
}

}  // namespace
}  // namespace graphtap::cli
