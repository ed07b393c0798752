// SPDX-License-Identifier: MIT
// Evaluates in two threads at a time, each with a calculator of its own: threads MODEL SYMBOL DISTANCE. Prints the
// energy of a pair of atoms as each thread found it, and "different" if it changed from one evaluation to the next.
#include <equi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static char **words;

static void *work(void *result) {
  double *energy = result;
  const int types[2] = {0, 0};
  const double positions[6] = {0, 0, 0, strtod(words[3], NULL), 0, 0};
  equi_calculator *calculator = equi_create(words[1], words[2], "precision double");
  if (!calculator) return NULL;
  for (int k = 0; k < 50; k++) {
    double again;
    if (equi_set_atoms(calculator, 2, types, positions, NULL, NULL) != EQUI_OK) break;
    if (equi_compute(calculator, &again, NULL, NULL, NULL, NULL) != EQUI_OK) break;
    if (k > 0 && again != *energy) printf("different\n");
    *energy = again;
  }
  equi_free(calculator);
  return NULL;
}

int main(int argc, char **argv) {
  double energies[2] = {0, 0};
  pthread_t threads[2];
  words = argv;
  if (argc != 4) return 2;
  for (int t = 0; t < 2; t++) pthread_create(&threads[t], NULL, work, &energies[t]);
  for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
  printf("%.17g\n%.17g\n", energies[0], energies[1]);
  return 0;
}
