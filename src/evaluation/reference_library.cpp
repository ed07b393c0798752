// SPDX-License-Identifier: MIT
// Loads the library of the LibTorch reference with dlopen.
#include "src/evaluation/reference_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <stdexcept>

namespace equi {

namespace {

using MakeTorchEvaluator = Evaluator *(*)(const Model *, const EvaluatorOptions *, char *, int);

// The folder of the library into which this code is linked.
std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&make_reference_evaluator), &info) || !info.dli_fname) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

MakeTorchEvaluator load() {
  const std::string path = own_folder() + "libequi_torch.so";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);    // never unloaded: Torch does not survive that
  if (!library) {
    const std::string reason = dlerror();
    std::error_code status;
    const std::filesystem::path build = std::filesystem::path(path).parent_path().parent_path();
    const bool is_missing = !std::filesystem::exists(path, status),
               is_built_here = std::filesystem::exists(build / "CMakeCache.txt", status);
    const std::string folder = is_built_here ? build.string() : "BUILD_FOLDER";
    throw std::runtime_error("the LibTorch reference cannot be loaded: " + reason +
                             (is_missing ? ": 'cmake -DEQUI_TORCH=ON " + folder + "', then 'cmake --build " + folder +
                                               " --target equi_torch' make it, with about 3 GB of downloads"
                                         : ""));
  }
  void *symbol = dlsym(library, "equi_make_torch_evaluator");
  if (!symbol) throw std::runtime_error(path + " is not the LibTorch reference: " + std::string(dlerror()));
  return reinterpret_cast<MakeTorchEvaluator>(symbol);
}

}    // namespace

std::unique_ptr<Evaluator> make_reference_evaluator(const Model &model, const EvaluatorOptions &options) {
  static const MakeTorchEvaluator make = load();
  char message[1000] = "";
  Evaluator *evaluator = make(&model, &options, message, sizeof message);
  if (!evaluator) throw std::runtime_error("the LibTorch reference failed: " + std::string(message));
  return std::unique_ptr<Evaluator>(evaluator);
}

}    // namespace equi
