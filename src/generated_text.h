// Text of generated sources, made line by line.
#ifndef EQUI_GENERATED_TEXT_H
#define EQUI_GENERATED_TEXT_H

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

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

inline std::string text_of(const char *format, int a, int b = 0) {
  char buffer[100];
  std::snprintf(buffer, sizeof buffer, format, a, b);
  return buffer;
}

// coefficient * name, as a summand
inline std::string summand(double coefficient, const std::string &name, bool first) {
  const char *sign = coefficient < 0.0 ? (first ? "-" : " - ") : (first ? "" : " + ");
  const double size = std::fabs(coefficient);
  if (size == 1.0) return sign + name;
  char constant[60];
  std::snprintf(constant, sizeof constant, "T(%a) * ", size);
  return sign + (constant + name);
}

// A sum that the first of several summands starts and the others add to.
class GeneratedSum {
 public:
  GeneratedSum(std::string type, std::string name) : type_(std::move(type)), name_(std::move(name)) {}
  void add(GeneratedText &text, int sign, const std::string &product) {
    if (!started_)
      text.line("        %s %s = %s%s;", type_.c_str(), name_.c_str(), sign < 0 ? "-" : "", product.c_str());
    else
      text.line("        %s %s %s;", name_.c_str(), sign < 0 ? "-=" : "+=", product.c_str());
    started_ = true;
  }

 private:
  std::string type_, name_;
  bool started_ = false;
};

}    // namespace equi

#endif
