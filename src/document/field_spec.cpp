// SPDX-License-Identifier: MIT
// Makes schemas of objects, checks objects against them, and writes them as JSON.
#include "src/document/field_spec.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace equi {

namespace {

FieldSpec make_spec(FieldSpec::Kind kind, const char *name, const char *meaning) {
  FieldSpec spec;
  spec.name = name;
  spec.kind = kind;
  spec.meaning = meaning;
  return spec;
}

void check_value(const JsonField &value, const FieldSpec &spec);
void check_word(const JsonField &value, const std::vector<std::string> &words);

// The field that tells an object from other alternatives: the first one, if it is a single word.
const FieldSpec *mark_of(const FieldSpec &spec) {
  const bool has_mark = spec.kind == FieldSpec::Kind::object && !spec.parts.empty() &&
                        spec.parts.front().kind == FieldSpec::Kind::word && spec.parts.front().words.size() == 1;
  return has_mark ? &spec.parts.front() : nullptr;
}

bool is_of_kind(const JsonField &value, const FieldSpec &spec) {
  using Kind = FieldSpec::Kind;
  switch (spec.kind) {
    case Kind::null:
      return value.is_null();
    case Kind::object:
      return value.json().is_object();
    case Kind::list:
      return value.json().is_array();
    default:
      return value.json().is_string();
  }
}

// If no alternative fits, the error is that of the last one.
void check_alternatives(const JsonField &value, const FieldSpecs &alternatives) {
  if (const FieldSpec *mark = mark_of(alternatives.front()); mark && value.json().is_object()) {
    const JsonField word = value[mark->name.c_str()];
    std::vector<std::string> words;
    for (const FieldSpec &one : alternatives) words.push_back(mark_of(one)->words.front());
    check_word(word, words);
    const auto chosen = std::find(words.begin(), words.end(), word.text());
    return check_value(value, alternatives[chosen - words.begin()]);
  }
  for (const FieldSpec &one : alternatives)
    if (is_of_kind(value, one) || &one == &alternatives.back()) return check_value(value, one);
}

void check_word(const JsonField &value, const std::vector<std::string> &words) {
  std::string known;
  for (const std::string &word : words) {
    if (value.text() == word) return;
    known += (known.empty() ? "" : " or ") + word;
  }
  value.fail(known);
}

void check_value(const JsonField &value, const FieldSpec &spec) {
  using Kind = FieldSpec::Kind;
  switch (spec.kind) {
    case Kind::text:
    case Kind::irreps:
    case Kind::activation:
    case Kind::tensor:
      value.text();
      break;
    case Kind::word:
      check_word(value, spec.words);
      break;
    case Kind::boolean:
      value.boolean();
      break;
    case Kind::integer:
      value.integer(static_cast<int>(spec.lowest), static_cast<int>(spec.highest));
      break;
    case Kind::number:
      if (spec.lowest == MIN_DIVISOR)
        value.divisor();
      else if (spec.lowest > -MAX_MAGNITUDE || spec.highest < MAX_MAGNITUDE)
        value.number(spec.lowest, spec.highest);
      else
        value.number();
      break;
    case Kind::null:
      if (!value.is_null()) value.fail("null");
      break;
    case Kind::list: {
      const std::size_t num = value.size_between(spec.least, spec.most, spec.items.c_str());
      for (std::size_t k = 0; k < num; ++k) check_value(value[k], spec.parts.front());
      break;
    }
    case Kind::object:
      check_fields(value, spec.parts);
      break;
    case Kind::any_of:
      check_alternatives(value, spec.parts);
      break;
  }
}

const char *name_of(FieldSpec::Kind kind) {
  using Kind = FieldSpec::Kind;
  switch (kind) {
    case Kind::text:
      return "text";
    case Kind::irreps:
      return "irreps";
    case Kind::activation:
      return "activation";
    case Kind::word:
      return "word";
    case Kind::tensor:
      return "tensor";
    case Kind::boolean:
      return "boolean";
    case Kind::integer:
      return "integer";
    case Kind::number:
      return "number";
    case Kind::null:
      return "null";
    case Kind::list:
      return "list";
    case Kind::object:
      return "object";
    case Kind::any_of:
      return "any_of";
  }
  return "";
}

nlohmann::ordered_json schema_of(const FieldSpec &spec) {
  using Kind = FieldSpec::Kind;
  nlohmann::ordered_json j;
  if (!spec.name.empty()) j["name"] = spec.name;
  j["kind"] = name_of(spec.kind);
  if (!spec.is_required) j["required"] = false;
  if (!spec.unless.empty()) j["unless"] = spec.unless;
  if (spec.kind == Kind::integer) {
    j["lowest"] = static_cast<int>(spec.lowest);
    if (spec.highest < INT32_MAX) j["highest"] = static_cast<int>(spec.highest);
  } else if (spec.kind == Kind::number) {
    if (spec.lowest > -MAX_MAGNITUDE) j["lowest"] = spec.lowest;
    if (spec.highest < MAX_MAGNITUDE) j["highest"] = spec.highest;
  }
  if (!spec.shape.empty()) j["shape"] = spec.shape;
  if (!spec.words.empty()) j["words"] = spec.words;
  if (spec.kind == Kind::list) {
    if (spec.least > 0) j["least"] = spec.least;
    if (spec.most != field::ANY_NUMBER) j["most"] = spec.most;
    j["item"] = schema_of(spec.parts.front());
  } else if (!spec.parts.empty()) {
    j[spec.kind == Kind::object ? "fields" : "alternatives"] = schema_of(spec.parts);
  }
  if (!spec.meaning.empty()) j["meaning"] = spec.meaning;
  return j;
}

}    // namespace

namespace field {

FieldSpec text(const char *name, const char *meaning) {
  return make_spec(FieldSpec::Kind::text, name, meaning);
}
FieldSpec irreps(const char *name, const char *meaning) {
  return make_spec(FieldSpec::Kind::irreps, name, meaning);
}
FieldSpec activation(const char *name, const char *meaning) {
  return make_spec(FieldSpec::Kind::activation, name, meaning);
}
FieldSpec boolean(const char *name, const char *meaning) {
  return make_spec(FieldSpec::Kind::boolean, name, meaning);
}
FieldSpec null() {
  return make_spec(FieldSpec::Kind::null, "", "");
}

FieldSpec word(const char *name, std::vector<std::string> words, const char *meaning) {
  FieldSpec spec = make_spec(FieldSpec::Kind::word, name, meaning);
  spec.words = std::move(words);
  return spec;
}

FieldSpec tensor(const char *name, const char *shape, const char *meaning) {
  FieldSpec spec = make_spec(FieldSpec::Kind::tensor, name, meaning);
  spec.shape = shape;
  return spec;
}

FieldSpec integer(const char *name, const char *meaning, int lowest, int highest) {
  FieldSpec spec = make_spec(FieldSpec::Kind::integer, name, meaning);
  spec.lowest = lowest;
  spec.highest = highest;
  return spec;
}

FieldSpec number(const char *name, const char *meaning, double lowest, double highest) {
  FieldSpec spec = make_spec(FieldSpec::Kind::number, name, meaning);
  spec.lowest = lowest;
  spec.highest = highest;
  return spec;
}

FieldSpec divisor(const char *name, const char *meaning) {
  return number(name, meaning, MIN_DIVISOR);
}

FieldSpec object(const char *name, FieldSpecs fields, const char *meaning) {
  FieldSpec spec = make_spec(FieldSpec::Kind::object, name, meaning);
  spec.parts = std::move(fields);
  return spec;
}

FieldSpec list(const char *name, const char *items, std::size_t least, std::size_t most, FieldSpec item,
               const char *meaning) {
  FieldSpec spec = make_spec(FieldSpec::Kind::list, name, meaning);
  spec.items = items;
  spec.least = least;
  spec.most = most;
  spec.parts = {std::move(item)};
  return spec;
}

FieldSpec any_of(const char *name, FieldSpecs alternatives, const char *meaning) {
  FieldSpec spec = make_spec(FieldSpec::Kind::any_of, name, meaning);
  spec.parts = std::move(alternatives);
  return spec;
}

FieldSpec marked(const char *mark, const char *kind, const char *meaning, FieldSpecs fields) {
  return object("", joined({word(mark, {kind}, meaning)}, std::move(fields)), "");
}

FieldSpec optional(FieldSpec spec) {
  spec.is_required = false;
  return spec;
}

FieldSpec required_unless(const char *other, FieldSpec spec) {
  spec.unless = other;
  return spec;
}

FieldSpecs joined(FieldSpecs first, FieldSpecs others) {
  first.insert(first.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return first;
}

}    // namespace field

void check_fields(const JsonField &object, const FieldSpecs &fields, const char *also) {
  std::vector<const char *> keys;
  if (also) keys.push_back(also);
  for (const FieldSpec &spec : fields) keys.push_back(spec.name.c_str());
  object.only_keys(keys);
  for (const FieldSpec &spec : fields) {
    const char *name = spec.name.c_str();
    const bool is_required = spec.is_required && (spec.unless.empty() || !object.has(spec.unless.c_str()));
    if (is_required || object.has(name)) check_value(object[name], spec);
  }
}

nlohmann::ordered_json schema_of(const FieldSpecs &fields) {
  nlohmann::ordered_json schema = nlohmann::ordered_json::array();
  for (const FieldSpec &spec : fields) schema.push_back(schema_of(spec));
  return schema;
}

}    // namespace equi
