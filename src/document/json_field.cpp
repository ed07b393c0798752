// SPDX-License-Identifier: MIT
// Parses the document of a model file and checks the types of its values.
#include "src/document/json_field.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/document/model_file_error.h"

#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace equi {

std::string text_of(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", v);
  return text;
}

namespace {

// Builds a document from the parser's events. The library's own builder keeps the last of two equal keys and nests as
// deeply as memory allows. With a callback its time is quadratic in the length of a list.
class DocumentBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Json = nlohmann::json;

  DocumentBuilder(const std::string &path, const std::string &where) : file_(path + ": " + where) {}
  Json take() { return std::move(document_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t &) override { return add(v); }
  bool string(string_t &v) override { return add(std::move(v)); }
  bool binary(binary_t &) override { return false; }    // does not occur in texts
  bool start_object(std::size_t) override { return start(Json::object()); }
  bool start_array(std::size_t) override { return start(Json::array()); }
  bool key(string_t &key) override {
    levels_.back().key = key;
    if (levels_.back().value->contains(key)) refuse("each key of an object once, found " + place() + " again");
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string &, const nlohmann::detail::exception &e) override {
    refuse("valid JSON, found: " + printable(e.what(), 200));
  }

 private:
  // An incomplete array or object, and the key of its last value.
  struct Level {
    Json *value;
    std::string key;
  };
  std::string file_;
  Json document_;
  std::vector<Level> levels_;

  Json &put(Json &&value) {
    if (levels_.empty()) return document_ = std::move(value);
    Json &parent = *levels_.back().value;
    if (parent.is_object()) return parent[levels_.back().key] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add(Json &&value) {
    put(std::move(value));
    return true;
  }
  bool start(Json &&value) {
    if (levels_.size() == MAX_NESTING)
      refuse("arrays and objects nested " + std::to_string(MAX_NESTING) + " deep at most, found more at " + place());
    Json &added = put(std::move(value));    // its address is fixed until it is complete
    levels_.push_back({&added, ""});
    return true;
  }
  bool end() {
    levels_.pop_back();
    return true;
  }

  // "layers[3].radial": the path of the last value.
  std::string place() const {
    std::string place;
    for (const Level &level : levels_)
      place += level.value->is_array() ? "[" + std::to_string(level.value->size() - !level.value->empty()) + "]"
                                       : (place.empty() ? "" : ".") + printable(level.key, SHOWN_NAME);
    return place;
  }
  [[noreturn]] void refuse(const std::string &expected) const {
    throw ModelFileError(file_ + ": expected " + expected);
  }
};

}    // namespace

nlohmann::json parse_json(const char *text, size_t length, const std::string &path, const std::string &where) {
  DocumentBuilder builder(path, where);
  nlohmann::json::sax_parse(text, text + length, &builder);
  return builder.take();
}

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

size_t JsonField::size_between(size_t least, size_t most, const char *of_what) const {
  if (size() < least || size() > most)
    fail("an array of " + std::to_string(least) + " to " + std::to_string(most) + " " + of_what,
         std::to_string(value_->size()));
  return value_->size();
}

const std::string &JsonField::text() const {
  if (!value_->is_string()) fail("a string");
  return value_->get_ref<const std::string &>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail("a number");
  const double v = value_->get<double>();
  if (!(std::fabs(v) <= MAX_MAGNITUDE)) fail("a number of a magnitude up to " + text_of(MAX_MAGNITUDE));
  return v;
}

double JsonField::number(double lowest, double highest) const {
  const double v = number();
  if (!(v >= lowest && v <= highest)) fail("a number from " + text_of(lowest) + " to " + text_of(highest));
  return v;
}

double JsonField::divisor() const {
  const double v = number();
  if (!(v >= MIN_DIVISOR)) fail("a positive number of at least " + text_of(MIN_DIVISOR));
  return v;
}

int JsonField::integer() const {
  return integer(INT32_MIN, INT32_MAX);
}

int JsonField::integer(int lowest, int highest) const {
  const std::string expected = "an integer from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (!value_->is_number_integer()) fail(expected);
  // The unsigned case first: a large number would be returned as negative.
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

void JsonField::only_keys(const std::vector<const char *> &keys) const {
  object();
  for (const auto &item : value_->items()) {
    bool is_known = false;
    std::string known;
    for (const char *key : keys) {
      is_known = is_known || item.key() == key;
      known += (known.empty() ? "" : ", ") + std::string(key);
    }
    if (!is_known) fail("only the fields " + known, "\"" + printable(item.key(), SHOWN_NAME) + "\"");
  }
}

std::string JsonField::describe() const {
  // Json::dump is not used for arrays and objects: it recurses, and a damaged file may nest deeply.
  if (value_->is_array()) return "an array of " + std::to_string(value_->size());
  if (value_->is_object()) return "an object";
  if (value_->is_string()) {
    return "\"" + printable(value_->get_ref<const std::string &>(), SHOWN_NAME) + "\"";
  }
  return value_->dump();
}

}    // namespace equi
