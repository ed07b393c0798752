// SPDX-License-Identifier: MIT
// The schema of an object in the document of a model file: its fields, each with the kind of its value, its range and
// one line of meaning. The reader, the model tool (tools/equi_tools/layer_fields.json) and the manual all use it.
#ifndef EQUI_FIELD_SPEC_H
#define EQUI_FIELD_SPEC_H

#include "src/base/model_limits.h"
#include "src/document/json_field.h"

#include <limits>
#include <string>
#include <vector>

namespace equi {

struct FieldSpec;
using FieldSpecs = std::vector<FieldSpec>;

struct FieldSpec {
  enum class Kind { text, irreps, activation, word, tensor, boolean, integer, number, null, list, object, any_of };

  std::string name;    // empty for an item of a list and for an alternative
  Kind kind = Kind::text;
  std::string meaning;
  bool is_required = true;
  std::string unless;                                         // the field is required unless this other one is present
  double lowest = -MAX_MAGNITUDE, highest = MAX_MAGNITUDE;    // for a number or an integer
  std::string shape;                                          // shape of a tensor, for the manual: "[species, n]"
  std::vector<std::string> words;                             // the words that are allowed
  std::size_t least = 0, most = std::numeric_limits<std::size_t>::max();    // number of items of a list
  std::string items;                                                        // name of the items, for messages: "paths"
  FieldSpecs parts;    // fields of an object, the only kind of items of a list, or alternatives
};

// Makers of fields. A field is required unless optional() or required_unless() changes that.
namespace field {

FieldSpec text(const char *name, const char *meaning);
FieldSpec irreps(const char *name, const char *meaning);
FieldSpec activation(const char *name, const char *meaning);
FieldSpec word(const char *name, std::vector<std::string> words, const char *meaning);
FieldSpec tensor(const char *name, const char *shape, const char *meaning);
FieldSpec boolean(const char *name, const char *meaning);
FieldSpec integer(const char *name, const char *meaning, int lowest = 0, int highest = INT32_MAX);
FieldSpec number(const char *name, const char *meaning, double lowest = -MAX_MAGNITUDE, double highest = MAX_MAGNITUDE);
FieldSpec divisor(const char *name, const char *meaning);    // a positive number
FieldSpec object(const char *name, FieldSpecs fields, const char *meaning);
FieldSpec list(const char *name, const char *items, std::size_t least, std::size_t most, FieldSpec item,
               const char *meaning);
FieldSpec any_of(const char *name, FieldSpecs alternatives, const char *meaning);
// An alternative of any_of(), all of which are then objects that the word in their field `mark` tells apart. meaning:
// that of the word.
FieldSpec marked(const char *mark, const char *kind, const char *meaning, FieldSpecs fields);
FieldSpec null();

FieldSpec optional(FieldSpec spec);
FieldSpec required_unless(const char *other, FieldSpec spec);

constexpr std::size_t ANY_NUMBER = std::numeric_limits<std::size_t>::max();

// `first`, followed by `others`.
FieldSpecs joined(FieldSpecs first, FieldSpecs others);

}    // namespace field

// Refuses three faults: fields with other names (except `also`, if it is not null), fields of other kinds or out of
// range, and missing required fields. The reader of the object checks which tensors exist, and whether names, irreps
// and activations are known.
void check_fields(const JsonField &object, const FieldSpecs &fields, const char *also = nullptr);

// The fields in the form that tools/equi_tools/document.py reads.
nlohmann::ordered_json schema_of(const FieldSpecs &fields);

}    // namespace equi

#endif
