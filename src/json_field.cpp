#include "json_field.h"

#include "model_file.h"
#include "model_limits.h"
#include "printable.h"

#include <cmath>
#include <set>
#include <vector>

namespace equi {

namespace {

constexpr size_t SHOWN = 40;    // characters of a text in a message

std::string text_of(double v) {
  return nlohmann::json(v).dump();
}

// An array or object that the parser is in, and where it is there.
struct Level {
  bool is_array;
  size_t index;       // of an array: elements before this one
  std::string key;    // of an object
  std::set<std::string> keys;
};

// "layers[3].radial", from the document on
std::string place_of(const std::vector<Level> &levels) {
  std::string place;
  for (const Level &level : levels)
    place += level.is_array ? "[" + std::to_string(level.index) + "]"
                            : (place.empty() ? "" : ".") + printable(level.key, SHOWN);
  return place;
}

}    // namespace

nlohmann::json parse_json(const char *text, size_t length, const std::string &path, const std::string &where) {
  using Json = nlohmann::json;
  std::vector<Level> levels;
  const auto refuse = [&](const std::string &message) {
    throw ModelFileError(path + ": " + where + ": expected " + message);
  };
  const auto next_value = [&] {
    if (!levels.empty() && levels.back().is_array) levels.back().index++;
  };
  // The parser itself keeps the last of two equal keys, and nests as deeply as memory goes.
  const auto check = [&](int, Json::parse_event_t event, Json &value) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (levels.size() == MAX_NESTING)
          refuse("arrays and objects nested " + std::to_string(MAX_NESTING) + " deep at most, found more at " +
                 place_of(levels));
        levels.push_back({event == Json::parse_event_t::array_start, 0, "", {}});
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        levels.pop_back();
        next_value();
        break;
      case Json::parse_event_t::key:
        levels.back().key = value.get_ref<const std::string &>();
        if (!levels.back().keys.insert(levels.back().key).second)
          refuse("each key of an object once, found " + place_of(levels) + " again");
        break;
      case Json::parse_event_t::value:
        next_value();
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, text + length, check);
  } catch (const Json::exception &e) {
    throw ModelFileError(path + ": " + where + ": expected valid JSON, found: " + printable(e.what(), 200));
  }
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

void JsonField::only_keys(const std::vector<const char *> &keys) const {
  object();
  for (const auto &item : value_->items()) {
    bool is_known = false;
    std::string known;
    for (const char *key : keys) {
      is_known = is_known || item.key() == key;
      known += (known.empty() ? "" : ", ") + std::string(key);
    }
    if (!is_known) fail("only the fields " + known, "\"" + printable(item.key(), SHOWN) + "\"");
  }
}

std::string JsonField::describe() const {
  // Not Json::dump for arrays and objects: it recurses, and a damaged file may nest deeply.
  if (value_->is_array()) return "an array of " + std::to_string(value_->size());
  if (value_->is_object()) return "an object";
  if (value_->is_string()) {
    return "\"" + printable(value_->get_ref<const std::string &>(), SHOWN) + "\"";
  }
  return value_->dump();
}

}    // namespace equi
