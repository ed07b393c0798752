// SPDX-License-Identifier: MIT
// Text of generated sources, made line by line.
#ifndef EQUI_GENERATED_TEXT_H
#define EQUI_GENERATED_TEXT_H

#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// The text that printf would print, of any length: the sums over the harmonics of high orders are long.
__attribute__((format(printf, 1, 0))) inline std::string formatted(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) throw std::runtime_error(std::string("cannot format '") + format + "'");
  std::string text(static_cast<size_t>(length) + 1, '\0');    // vsnprintf writes the terminating zero as well
  std::vsnprintf(text.data(), text.size(), format, arguments);
  text.resize(static_cast<size_t>(length));
  return text;
}

// Text with lines added in the manner of printf.
class GeneratedText {
 public:
  __attribute__((format(printf, 2, 3))) void line(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_ += formatted(format, arguments);
    va_end(arguments);
    text_ += '\n';
  }
  void add(const std::string &more) { text_ += more; }
  // Closes blocks; the innermost is indented by `from` and the outermost by `to`.
  void close(int from, int to) {
    for (; from >= to; from -= 2) line("%*s}", from, "");
  }
  // The same up to the end of a function.
  void close(int from) {
    close(from, 0);
    add("\n");
  }
  const std::string &str() const { return text_; }

 private:
  std::string text_;
};

__attribute__((format(printf, 1, 2))) inline std::string text_from(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formatted(format, arguments);
  va_end(arguments);
  return text;
}

// A text with one or two numbers.
inline std::string text_of(const char *format, int a, int b = 0) {
  return text_from(format, a, b);
}

// coefficient * name, as a summand
inline std::string summand(double coefficient, const std::string &name, bool first) {
  const char *sign = coefficient < 0.0 ? (first ? "-" : " - ") : (first ? "" : " + ");
  const double size = std::fabs(coefficient);
  if (size == 1.0) return sign + name;
  return sign + text_from("T(%a) * ", size) + name;
}

// "-=" or "+="
inline const char *add_with(int sign) {
  return sign < 0 ? "-=" : "+=";
}

// "r, b1, b2" from "r", ", b%d" and {1, 2}
inline std::string list_of(std::string first, const char *format, const std::vector<int> &numbers) {
  for (int n : numbers) first += text_of(format, n);
  return first;
}

// A sum: the first of several summands starts it, and the others are added.
class GeneratedSum {
 public:
  GeneratedSum(std::string type, std::string name) : type_(std::move(type)), name_(std::move(name)) {}
  void add(GeneratedText &text, int sign, const std::string &product) {
    if (!started_)
      text.line("        %s %s = %s%s;", type_.c_str(), name_.c_str(), sign < 0 ? "-" : "", product.c_str());
    else
      text.line("        %s %s %s;", name_.c_str(), add_with(sign), product.c_str());
    started_ = true;
  }

 private:
  std::string type_, name_;
  bool started_ = false;
};

}    // namespace equi

#endif
