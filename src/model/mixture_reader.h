// SPDX-License-Identifier: MIT
// Reads the field `mixture` of a file for all systems (doc/model_file.rst).
#ifndef EQUI_MIXTURE_READER_H
#define EQUI_MIXTURE_READER_H

#include "src/document/json_field.h"
#include "src/document/safetensors.h"
#include "src/model/mixture.h"

#include <list>
#include <string>
#include <vector>

namespace equi {

// The tensors of a file in the form that its layers read for one system.
struct SystemTensors {
  Mixture mixture;
  SafetensorsFile container;
  std::list<std::vector<double>> made;    // storage to which tensors of `container` point
};

// mixture: this field of the document. Throws ModelFileError.
SystemTensors make_system_tensors(const JsonField &mixture, const SafetensorsFile &container,
                                  const std::vector<std::string> &elements, const std::string &file,
                                  const AtomicSystem &system);

}    // namespace equi

#endif
