// SPDX-License-Identifier: MIT
// A JSON value that knows its path in the document, so every refusal names the file, the field, what was expected and
// what was found. Only the readers of model files use it.
#ifndef EQUI_JSON_FIELD_H
#define EQUI_JSON_FIELD_H

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

constexpr size_t SHOWN_NAME = 40;    // characters of a name in a message
std::string text_of(double v);       // the number with ten digits, for messages

// Parses a document of `length` bytes. Throws ModelFileError, which names `path` and `where`, for three faults: the
// text is not JSON, an object has a key twice, or the nesting is deeper than MAX_NESTING (model_limits.h).
nlohmann::json parse_json(const char *text, size_t length, const std::string &path, const std::string &where);

class JsonField {
 public:
  using Json = nlohmann::json;

  // value and file must outlive the field. name: path of the value, empty for the document.
  JsonField(const Json &value, const std::string &file, std::string name)
      : value_(&value), file_(&file), name_(std::move(name)) {}

  const std::string &name() const { return name_; }
  const Json &json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }

  // Throws ModelFileError "FILE: FIELD: expected EXPECTED, found FOUND".
  [[noreturn]] void fail(const std::string &expected, const std::string &found) const;
  [[noreturn]] void fail(const std::string &expected) const { fail(expected, describe()); }
  // The same error without the pattern: "FILE: FIELD: MESSAGE".
  [[noreturn]] void refuse(const std::string &message) const;
  // Returns the result of f(). If f throws std::invalid_argument, its message is refused at this field.
  template <class F>
  auto checked(F &&f) const -> decltype(f()) {
    try {
      return f();
    } catch (const std::invalid_argument &e) {
      refuse(e.what());
    }
  }

  // Members of an object: a required one, and whether one is present.
  JsonField operator[](const char *key) const;
  bool has(const char *key) const;
  // Elements of an array.
  JsonField operator[](size_t i) const;
  size_t size() const;    // refuses any value that is not an array
  size_t size(size_t expected, const char *of_what) const;
  size_t size_between(size_t least, size_t most, const char *of_what) const;

  const std::string &text() const;
  double number() const;    // its magnitude fits into float32
  double number(double lowest, double highest) const;
  double divisor() const;    // a positive number
  int integer() const;
  int integer(int lowest, int highest) const;
  bool boolean() const;
  // Refuse other types and keys that are not in the list: a misspelled option would change the model silently.
  void object() const;
  void only_keys(const std::vector<const char *> &keys) const;

  std::string describe() const;    // short, for messages

 private:
  const Json *value_;
  const std::string *file_;
  std::string name_;
};

}    // namespace equi

#endif
