// SPDX-License-Identifier: MIT
// The radial functions of a layer, one for each pair of species with a function of its own, and their tables.
#ifndef EQUI_RADIAL_SET_H
#define EQUI_RADIAL_SET_H

#include "src/evaluation/evaluator.h"

#include <string>
#include <vector>

namespace equi {

// Whether a pair of species and its reverse have the same number. An empty matrix means one number for all pairs.
bool is_symmetric(const Matrix &of_pairs);

// The relative error of tables that options request (RadialTable).
double radial_tolerance(const EvaluatorOptions &options);

// Finds bins in the tables of a set, which are in arrays. For kernels.
struct RadialFinder {
  struct Table {
    int first_piece, num_pieces, first_bin;
  };
  const int *pairs;    // RadialSet::pairs(), or null if all pairs have the same table
  const RadialTable::Piece *pieces;
  const Table *tables;
  // pair: species of the receiver times their number, plus that of the sender.
  EQUI_FUNCTION int function(int pair) const { return pairs ? pairs[pair] : 0; }
  // The bin is counted over all tables.
  EQUI_FUNCTION RadialTable::BinPosition bin_of(double r, int pair) const {
    const Table &table = tables[function(pair)];
    RadialTable::BinPosition found = RadialTable::bin_among(pieces + table.first_piece, table.num_pieces, r);
    found.bin += table.first_bin;
    return found;
  }
};

class RadialSet {
 public:
  // Builds the tables, all of the same degree, unless options request exact functions.
  RadialSet(const RadialFunction &function, int num_species, const EvaluatorOptions &options);
  // The same for functions that are given, none of which depends on the pair; of_pair: pairs().
  RadialSet(std::vector<RadialFunction> functions, std::vector<int> of_pair, int num_species,
            const EvaluatorOptions &options);

  bool exact() const { return tables_.empty(); }
  int num_outputs() const { return functions_.front().num_outputs(); }
  int num_functions() const { return static_cast<int>(functions_.size()); }
  const RadialFunction &function(int k) const { return functions_[k]; }
  const RadialTable &table(int k) const { return tables_[k]; }
  int num_coefficients() const { return tables_.front().degree + 1; }    // coefficients of a bin's polynomial

  // Number of the function of a pair.
  int table_index(int receiver, int sender) const {
    return of_pair_.empty() ? 0 : of_pair_[receiver * num_species_ + sender];
  }
  // Whether table_index() is 0 for all.
  bool has_one_table() const { return of_pair_.empty(); }
  // Whether a pair and its reverse have the same function.
  bool is_of_undirected_pairs() const;
  // table_index() as an array [receiver * species + sender]; empty if has_one_table().
  const std::vector<int> &pairs() const { return of_pair_; }

  // The polynomials of a table's bins, bin after bin, in BinPosition::fraction. Calls f(bin, column,
  // powers[num_coefficients()]).
  template <class F>
  void for_polynomials(int k, const F &f) const;
  // The tables for a RadialFinder.
  void find_tables(std::vector<RadialTable::Piece> &pieces, std::vector<RadialFinder::Table> &tables) const;
  // Frees the rows of the tables; bin_of() of a table still works.
  void drop_rows();

  // "quintic table with 126 knots, error 4.1e-07 (value), 9.3e-07 (derivative)", or "exact"
  std::string describe() const;

 private:
  void build_tables(const EvaluatorOptions &options);

  int num_species_;
  std::vector<RadialFunction> functions_;
  std::vector<RadialTable> tables_;
  std::vector<int> of_pair_;
};

}    // namespace equi

namespace equi {

template <class F>
void RadialSet::for_polynomials(int k, const F &f) const {
  const RadialTable &table = tables_[k];
  int number = 0;
  for (const RadialTable::Piece &piece : table.pieces)
    for (int knot = piece.first_knot; knot < piece.first_knot + piece.num_bins; knot++, number++)
      for (int c = 0; c < table.num_columns; c++) {
        double of_bin[MAX_TABLE_DEGREE + 1], powers[MAX_TABLE_DEGREE + 1];
        for (int n = 0; n <= table.degree; n++)
          of_bin[n] = table.rows[static_cast<size_t>(knot * table.rows_per_knot() + n) * table.num_columns + c];
        hermite_powers(table.degree, of_bin, powers);
        f(number, c, powers);
      }
}

}    // namespace equi

#endif
