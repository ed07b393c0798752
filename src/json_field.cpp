#include "json_field.h"

#include "model_file.h"

#include <cmath>
#include <cstring>

namespace equi {

void JsonField::fail(const std::string &expected, const std::string &found) const {
  refuse("expected " + expected + ", found " + found);
}

void JsonField::refuse(const std::string &message) const {
  throw ModelFileError(*file_ + ": " + (name_.empty() ? "document" : name_) + ": " + message);
}

JsonField JsonField::operator[](const char *key) const {
  object();
  const std::string name = name_.empty() ? key : name_ + "." + key;
  const auto it = value_->find(key);
  if (it == value_->end()) throw ModelFileError(*file_ + ": " + name + ": expected this field, found none");
  return JsonField(*it, *file_, name);
}

bool JsonField::has(const char *key) const {
  object();
  return value_->find(key) != value_->end();
}

JsonField JsonField::operator[](size_t i) const {
  size();
  return JsonField((*value_)[i], *file_, name_ + "[" + std::to_string(i) + "]");
}

size_t JsonField::size() const {
  if (!value_->is_array()) fail("an array");
  return value_->size();
}

size_t JsonField::size(size_t expected, const char *of_what) const {
  if (size() != expected)
    fail("an array of " + std::to_string(expected) + " " + of_what, std::to_string(value_->size()));
  return expected;
}

const std::string &JsonField::text() const {
  if (!value_->is_string()) fail("a string");
  return value_->get_ref<const std::string &>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail("a number");
  const double v = value_->get<double>();
  if (!std::isfinite(v)) fail("a finite number", "one that is not");
  return v;
}

int JsonField::integer(int lowest, int highest) const {
  const std::string expected = "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (!value_->is_number_integer()) fail(expected);
  // The unsigned case first: a large one would come back negative.
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) fail(expected);
  const int64_t v = value_->get<int64_t>();
  if (v < lowest || v > highest) fail(expected);
  return static_cast<int>(v);
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

void JsonField::object() const {
  if (!value_->is_object()) fail("an object");
}

void JsonField::only_keys(std::initializer_list<const char *> keys) const {
  object();
  for (const auto &item : value_->items()) {
    bool is_known = false;
    std::string known;
    for (const char *key : keys) {
      is_known = is_known || item.key() == key;
      known += (known.empty() ? "" : ", ") + std::string(key);
    }
    if (!is_known) fail("only the fields " + known, "\"" + item.key().substr(0, 40) + "\"");
  }
}

std::string JsonField::describe() const {
  // Not Json::dump for arrays and objects: it recurses, and a damaged file may nest deeply.
  if (value_->is_array()) return "an array of " + std::to_string(value_->size());
  if (value_->is_object()) return "an object";
  if (value_->is_string()) {
    const std::string &s = value_->get_ref<const std::string &>();
    return "\"" + s.substr(0, 40) + (s.size() > 40 ? "..." : "") + "\"";
  }
  return value_->dump();
}

}    // namespace equi
