// SPDX-License-Identifier: MIT
/* The C interface of libequi.so: energies, forces and stresses of a model file, without LAMMPS and without Python.
 *
 * Lengths are in Angstrom, energies in eV. Coordinates of an atom and of a lattice vector are consecutive numbers.
 * Types and atoms are counted from 0. No exception leaves a function. A function that can fail returns EQUI_OK or
 * EQUI_ERROR, or a null pointer, and equi_last_error() has the reason.
 *
 * Threads: functions may be called from any thread. Calls that evaluate or read a file wait for each other, also those
 * with different calculators. One calculator must not be used by two threads at a time. A process that was forked
 * after the first evaluation must not evaluate.
 *
 * doc/c_interface.rst has a complete program.
 */
#ifndef EQUI_H
#define EQUI_H

/* The version of this interface. It grows with each function or keyword that is added; none is changed or removed. */
#define EQUI_API_VERSION 2

#define EQUI_OK    0
#define EQUI_ERROR 1

#if defined(__GNUC__)
#define EQUI_API __attribute__((visibility("default")))
#else
#define EQUI_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct equi_calculator equi_calculator;

/* EQUI_API_VERSION of the library, which may be larger than that of the header, and its version, "0.2.0". */
EQUI_API int equi_api_version(void);
EQUI_API const char *equi_version(void);

/* Why the last function that failed in this thread did so: one or more lines of UTF-8. It is valid until the next
 * failure in this thread, and empty before the first. */
EQUI_API const char *equi_last_error(void);

/* Reads a model file. It is searched for in the current folder, then in the folders of LAMMPS_POTENTIALS.
 *
 * elements: chemical symbols, separated by blanks; type k is the k-th of them. NULL: all elements of the file in its
 * own order. Tables are made only for the elements in the list.
 *
 * keywords: words with their values, separated by blanks, as in LAMMPS's command pair_style equi; NULL: none. Known
 * are precision, radial, memory, deterministic, kernels, forces, task, charge, spin, system, field, and
 * `threads NUMBER`. The first calculator of a process starts the threads of all; another number later is an error.
 *
 * Returns NULL at errors. equi_free() releases the calculator; it accepts NULL. */
EQUI_API equi_calculator *equi_create(const char *file, const char *elements, const char *keywords);
EQUI_API void equi_free(equi_calculator *calculator);

/* The number of types, and the symbol of a type, NULL for one that does not exist. */
EQUI_API int equi_num_types(const equi_calculator *calculator);
EQUI_API const char *equi_symbol(const equi_calculator *calculator, int type);
/* Atoms farther apart do not interact directly. Angstrom; 0 for a null pointer. */
EQUI_API double equi_cutoff(const equi_calculator *calculator);
/* Number of threads that evaluate; 0 before the first calculator. */
EQUI_API int equi_num_threads(void);
/* Lines for a log: the model, precision, kernels and threads, table errors. Valid until the next call with this
 * calculator; NULL at errors. */
EQUI_API const char *equi_describe(equi_calculator *calculator);

/* Sets the structure; nothing is kept of the arrays.
 *
 * types[num_atoms], positions[3 * num_atoms]: atoms may be outside the cell. cell[9]: three lattice vectors, one after
 * another, of any handedness; periodic[3]: 0 or 1 for each. NULL for both: no periodicity. A vector without
 * periodicity does not affect results other than the stress, and may be zero.
 *
 * A calculator keeps its neighbor list while the same atoms move little in the same cell. */
EQUI_API int equi_set_atoms(equi_calculator *calculator, int num_atoms, const int *types, const double *positions,
                            const double *cell, const int *periodic);

/* Computes results for the structure. Null pointers are results that are not needed.
 *
 * energy: one number. energies[num_atoms]: its parts by atom. forces[3 * num_atoms], eV/Angstrom. virial[6]: minus the
 * derivative of the energy by the strain, in eV, in the order xx yy zz yz xz xy. stress[6], same order,
 * eV/Angstrom^3: minus the virial divided by the volume of the cell, positive under tension as in ASE. It is an error
 * to ask for the stress of a cell without a volume, and for virial or stress with `forces direct`. */
EQUI_API int equi_compute(equi_calculator *calculator, double *energy, double *energies, double *forces, double *virial,
                          double *stress);

/* Second derivatives of the energy by positions, eV/Angstrom^2: hessian[3 * num_atoms][3 * num_atoms], x, y, z of the
 * first atom, then of the next. All periodic images of an atom move with it. */
EQUI_API int equi_hessian(equi_calculator *calculator, double *hessian);

/* A quantity of atoms that the model computes besides the energy. values[num_atoms][n]: "charge", n = 1, in e;
 * "dipole", n = 3, in e Angstrom, without the part of charges times positions; "polarizability", n = 6, in the order xx
 * yy zz yz xz xy; "spin", n = 1, electrons of spin up minus those of spin down. It is an error if the model has none.
 * CPUs compute it, also if a GPU computes the energy. */
EQUI_API int equi_compute_observable(equi_calculator *calculator, const char *name, double *values);
/* The unit of its values: that of a polarizability is the unit of the training data, "unknown" if the file does not
 * state it. NULL if the model has no quantity of this name. Valid until the next call with this calculator. */
EQUI_API const char *equi_observable_unit(equi_calculator *calculator, const char *name);

/* Born effective charges in e of a model with charges or dipoles: born[9 * num_atoms]; number 3 a + b of an atom is the
 * derivative of component a of the polarization, times the volume, by coordinate b of the atom. charge_derivatives[3 *
 * num_atoms], or null: the derivatives of the total charge by positions, e/Angstrom. If neutral is not 0, charges are
 * reduced by their mean, and Born charges sum to 0. CPUs compute them in double precision, with any `precision`. */
EQUI_API int equi_born_charges(equi_calculator *calculator, int neutral, double *born, double *charge_derivatives);

#ifdef __cplusplus
}
#endif

#endif
