// Text of generated sources, made line by line.
#ifndef EQUI_GENERATED_TEXT_H
#define EQUI_GENERATED_TEXT_H

#include <cstdarg>
#include <cstdio>
#include <string>

namespace equi {

// Text with lines added in the manner of printf.
class GeneratedText {
 public:
  __attribute__((format(printf, 2, 3))) void line(const char *format, ...) {
    char buffer[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text_ += buffer;
    text_ += '\n';
  }
  void add(const std::string &more) { text_ += more; }
  const std::string &str() const { return text_; }

 private:
  std::string text_;
};

}    // namespace equi

#endif
