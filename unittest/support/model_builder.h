// SPDX-License-Identifier: MIT
// Tiny random models, made in memory: a document and tensors like those of `equi convert`, which can be changed before
// they become the bytes of an .equi file. For all levels of tests.
//
//   TinyModelOptions options;
//   options.hidden = {"13x0e+5x1e", "5x0e"};
//   ModelDocument d = make_tiny_model(options);
//   d.document["cutoff"] = -1.0;                      // break it, if a test requires it
//   Model model = parse_model(d.bytes(), "tiny.equi");
#ifndef EQUI_TEST_MODEL_BUILDER_H
#define EQUI_TEST_MODEL_BUILDER_H

#include "src/model/model_file.h"
#include "unittest/support/editable_document.h"
#include "unittest/support/tiny_model_options.h"

namespace equi {
namespace testing {

ModelDocument make_tiny_model(const TinyModelOptions &options = {});

}    // namespace testing
}    // namespace equi

#endif
