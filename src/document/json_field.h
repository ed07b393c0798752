// SPDX-License-Identifier: MIT
// A JSON value that knows its path in the document, so that every refusal names the file, the field, what was expected
// and what was found. Only the readers of model files use it.
#ifndef EQUI_JSON_FIELD_H
#define EQUI_JSON_FIELD_H

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

constexpr size_t SHOWN_NAME = 40;    // characters of a name in a message
std::string text_of(double v);       // for messages, with ten digits

// A document of `length` bytes. Throws ModelFileError, which names `path` and `where`, for a text that is not JSON, for
// a key that an object has twice, and for deeper nesting than MAX_NESTING (model_limits.h).
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
  // The same without the pattern: "FILE: FIELD: MESSAGE".
  [[noreturn]] void refuse(const std::string &message) const;
  // What f() returns. The message of a std::invalid_argument that it throws is refused at this field.
  template <class F>
  auto checked(F &&f) const -> decltype(f()) {
    try {
      return f();
    } catch (const std::invalid_argument &e) {
      refuse(e.what());
    }
  }

  // Members of an object: required, and whether it is there.
  JsonField operator[](const char *key) const;
  bool has(const char *key) const;
  // Elements of an array.
  JsonField operator[](size_t i) const;
  size_t size() const;    // refuses what is not an array
  size_t size(size_t expected, const char *of_what) const;
  size_t size_between(size_t least, size_t most, const char *of_what) const;

  const std::string &text() const;
  double number() const;    // of a magnitude that float32 holds
  double number(double lowest, double highest) const;
  double divisor() const;    // a positive one
  int integer() const;
  int integer(int lowest, int highest) const;
  bool boolean() const;
  // Refuses other types, and keys that are not in the list: a misspelled option would change the model silently.
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
