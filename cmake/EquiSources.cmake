# SPDX-License-Identifier: MIT
# Every source of src/ and kokkos/, once. The room and the name of a source say which library it belongs to, and
# CMakeLists.txt selects by them: a source of a layer needs only its line here.

set(equi_sources
    kokkos/device_kernels/device_dense.cpp
    kokkos/device_kernels/device_dense_cuda.cpp
    kokkos/device_kernels/device_dense_tensor.cpp
    kokkos/evaluation/device_committee.cpp
    kokkos/evaluation/device_evaluation.cpp
    kokkos/evaluation/host_evaluation.cpp
    kokkos/geometry/device_edges.cpp
    kokkos/geometry/device_neighborhood.cpp
    kokkos/geometry/edges.cpp
    kokkos/geometry/radial_set.cpp
    kokkos/geometry/radial_windows.cpp
    kokkos/geometry/rotations.cpp
    kokkos/kernel_libraries/convolution_tables.cpp
    kokkos/host_kernels/host_kernels.cpp
    kokkos/host_kernels/host_kernels_amx.cpp
    kokkos/host_kernels/host_kernels_avx2.cpp
    kokkos/host_kernels/host_kernels_avx512.cpp
    kokkos/host_kernels/host_kernels_generic.cpp
    kokkos/host_kernels/host_kernels_neon.cpp
    kokkos/host_kernels/split_trial.cpp
    kokkos/kernel_libraries/kernel_cache.cpp
    kokkos/kernel_libraries/kernel_check.cpp
    kokkos/kernel_libraries/kernel_library.cpp
    kokkos/kernel_libraries/kernel_reference.cpp
    kokkos/lammps/kokkos_styles.cpp
    kokkos/lammps/lammps_device_neighborhood.cpp
    kokkos/lammps/lammps_exchange_kokkos.cpp
    kokkos/lammps/pair_atoms_kokkos.cpp
    kokkos/lammps/pair_equi_kokkos.cpp
    kokkos/lammps/pair_runner_kokkos.cpp
    kokkos/layers/channel_balance/device_channel_balance.cpp
    kokkos/layers/contraction/contraction_constants.cpp
    kokkos/layers/contraction/device_contraction.cpp
    kokkos/layers/contraction/host_contraction.cpp
    kokkos/layers/convolution/convolution_constants.cpp
    kokkos/layers/convolution/device_convolution_double.cpp
    kokkos/layers/convolution/device_convolution_float.cpp
    kokkos/layers/edge_network/device_edge_network.cpp
    kokkos/layers/edge_network/edge_network.cpp
    kokkos/layers/convolution/host_convolution_layer.cpp
    kokkos/layers/density/density_constants.cpp
    kokkos/layers/density/device_density.cpp
    kokkos/layers/density/host_density.cpp
    kokkos/layers/potential/device_boundary_potential.cpp
    kokkos/layers/potential/host_boundary_potential.cpp
    kokkos/layer_interface/device_rows.cpp
    kokkos/plan/evaluation_plan.cpp
    kokkos/layers/gate/device_gate.cpp
    kokkos/layers/gate/gate_constants.cpp
    kokkos/layers/gate/host_gate.cpp
    kokkos/layers/grid_network/device_grid_network.cpp
    kokkos/layers/grid_network/host_grid_network.cpp
    kokkos/layers/linear/device_linear.cpp
    kokkos/layers/linear/host_linear.cpp
    kokkos/layers/linear/linear_constants.cpp
    kokkos/plan/linear_folds.cpp
    kokkos/layers/local_network/device_local_blocks.cpp
    kokkos/layers/local_network/local_placement.cpp
    kokkos/layers/local_network/local_program.cpp
    kokkos/plan/operation_count.cpp
    kokkos/plan/repeated_features.cpp
    kokkos/plan/shared_memories.cpp
    kokkos/layers/pair_attention/device_pair_attention.cpp
    kokkos/layers/pair_attention/host_pair_attention.cpp
    kokkos/layers/readout/device_readout.cpp
    kokkos/layers/so2_convolution/device_so2_convolution.cpp
    kokkos/layers/so2_convolution/host_so2_convolution.cpp
    kokkos/layers/so2_convolution/host_so2_layer.cpp
    kokkos/layers/so2_convolution/so2_linears.cpp
    kokkos/runtime/kokkos_runtime.cpp
    kokkos/training/device_edge_convolution.cpp
    kokkos/training/edge_convolution.cpp
    kokkos/training/torch_gaunt.cpp
    kokkos/training/torch_ops.cpp
    kokkos/training/torch_ops_cuda.cpp
    kokkos/wave_sums/device_waves.cpp
    kokkos/wave_sums/host_waves.cpp
    kokkos/wave_sums/system_waves.cpp
    src/algebra/channelwise_product.cpp
    src/algebra/coupling.cpp
    src/algebra/gaunt_product.cpp
    src/algebra/irreps.cpp
    src/algebra/sphere_grid.cpp
    src/algebra/spherical_harmonics.cpp
    src/algebra/symmetric_contraction.cpp
    src/algebra/tensor_product.cpp
    src/base/data_hash.cpp
    src/base/host_resources.cpp
    src/base/printable.cpp
    src/document/field_spec.cpp
    src/document/function_reader.cpp
    src/document/json_field.cpp
    src/document/safetensors.cpp
    src/document/tensor_reader.cpp
    src/evaluation/born_charges.cpp
    src/evaluation/committee.cpp
    src/evaluation/law_check.cpp
    src/evaluation/reference_library.cpp
    src/evaluation/self_check.cpp
    src/functions/network.cpp
    src/functions/radial_expansion.cpp
    src/functions/radial_function.cpp
    src/functions/radial_table.cpp
    src/functions/wave_sum.cpp
    src/functions/wave_vectors.cpp
    src/generator/common_kernels.cpp
    src/generator/contraction_generator.cpp
    src/generator/contraction_schedule.cpp
    src/generator/device_generator.cpp
    src/generator/device_path_text.cpp
    src/generator/kernel_generator.cpp
    src/generator/kernel_schedule.cpp
    src/generator/path_group_generator.cpp
    src/generator/path_text.cpp
    src/generator/uvw_generator.cpp
    src/geometry/neighbor_graph.cpp
    src/hessian/conjugate_directions.cpp
    src/hessian/lattice_translations.cpp
    src/hessian/lowest_eigenpairs.cpp
    src/lammps/atoms/lammps_exchange.cpp
    src/lammps/atoms/lammps_neighborhood.cpp
    src/lammps/checks/atom_checks.cpp
    src/lammps/checks/bond_checks.cpp
    src/lammps/checks/self_checks.cpp
    src/lammps/checks/setup_checks.cpp
    src/lammps/commands/compute_equi_born.cpp
    src/lammps/commands/compute_equi_deviation.cpp
    src/lammps/commands/compute_equi_heat_flux.cpp
    src/lammps/commands/compute_equi_hvp.cpp
    src/lammps/commands/compute_equi_observable.cpp
    src/lammps/commands/equi_dynamical_matrix.cpp
    src/lammps/commands/equi_elastic.cpp
    src/lammps/commands/equi_modes.cpp
    src/lammps/commands/lammps_hessian.cpp
    src/lammps/evaluation/committee_deviation.cpp
    src/lammps/evaluation/pair_atoms.cpp
    src/lammps/evaluation/pair_derivatives.cpp
    src/lammps/evaluation/pair_evaluators.cpp
    src/lammps/evaluation/pair_models.cpp
    src/lammps/evaluation/pair_observables.cpp
    src/lammps/evaluation/pair_runner.cpp
    src/lammps/evaluation/pair_settings.cpp
    src/lammps/faults/lammps_faults.cpp
    src/lammps/pair/pair_equi.cpp
    src/lammps/plugin/equiplugin.cpp
    src/lammps/plugin/lammps_compatibility.cpp
    src/layers/channel_balance.cpp
    src/layers/convolution.cpp
    src/layers/coulomb.cpp
    src/layers/density_normalization.cpp
    src/layers/direct_forces.cpp
    src/layers/dispersion.cpp
    src/layers/ewald.cpp
    src/layers/gate.cpp
    src/layers/grid_network.cpp
    src/layers/layer_norm.cpp
    src/layers/layer_reader.cpp
    src/layers/linear.cpp
    src/layers/local_network.cpp
    src/layers/node_product.cpp
    src/layers/norm_scale.cpp
    src/layers/observable.cpp
    src/layers/operations.cpp
    src/layers/pair_attention.cpp
    src/layers/pair_repulsion.cpp
    src/layers/potential.cpp
    src/layers/readout.cpp
    src/layers/scale_shift.cpp
    src/layers/so2_convolution.cpp
    src/layers/species_embedding.cpp
    src/layers/spherical_norm.cpp
    src/layers/symmetric_contraction.cpp
    src/library/calculator.cpp
    src/library/calculator_settings.cpp
    src/library/equi.cpp
    src/library/structure_neighbors.cpp
    src/model/chemical_elements.cpp
    src/model/mixture.cpp
    src/model/mixture_reader.cpp
    src/model/model.cpp
    src/model/model_checks.cpp
    src/model/model_file.cpp
    src/reference/torch_model.cpp)

# equi_select(OUT REGEX [EXCEPT]): the sources that match REGEX and do not match EXCEPT.
function(equi_select out regex)
  set(selected ${equi_sources})
  list(FILTER selected INCLUDE REGEX "${regex}")
  if(ARGC GREATER 2)
    list(FILTER selected EXCLUDE REGEX "${ARGV2}")
  endif()
  set(${out} ${selected} PARENT_SCOPE)
endfunction()

# equi_unite(LIST): replaces its sources by two sources of the build folder, which include them and so read each header
# once.
function(equi_unite list)
  set(number 0)
  foreach(source ${${list}})
    math(EXPR unit "${number} % 2")
    string(APPEND text_${unit} "#include \"${source}\"\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(units "")
  foreach(unit 0 1)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/generated/${list}_${unit}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${unit}}" @ONLY)
    list(APPEND units ${file})
  endforeach()
  set(${list} ${units} PARENT_SCOPE)
endfunction()

# equi_with_includes(OUT FILES...): the files and all files of this project that they include, by their paths from the
# root.
function(equi_with_includes out)
  set(found "")
  set(pending ${ARGN})
  while(pending)
    list(POP_FRONT pending file)
    if(file IN_LIST found OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${file})
      continue()
    endif()
    list(APPEND found ${file})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${file} included REGEX "^#include \"")
    list(TRANSFORM included REPLACE "^#include \"([^\"]+)\".*" "\\1")
    list(APPEND pending ${included})
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# equi_select_kokkos(OUT FILES...): the sources that include Kokkos, themselves or by their headers.
function(equi_select_kokkos out)
  set(selected "")
  foreach(source ${ARGN})
    equi_with_includes(files ${source})
    foreach(file ${files})
      file(STRINGS ${PROJECT_SOURCE_DIR}/${file} lines REGEX "^#include <Kokkos_" LIMIT_COUNT 1)
      if(lines)
        list(APPEND selected ${source})
        break()
      endif()
    endforeach()
  endforeach()
  set(${out} ${selected} PARENT_SCOPE)
endfunction()
