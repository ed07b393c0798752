// SPDX-License-Identifier: MIT
// Finds the arrays that an object owns, and counts their memory. A class that owns some lists them, and its members
// that own others, in one line:
//   auto members() const { return std::tie(weights_, scratch_, network_); }
#ifndef EQUI_OWNED_MEMORY_H
#define EQUI_OWNED_MEMORY_H

#include <cstddef>
#include <functional>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

namespace equi {

// f(begin of an array, its bytes)
using MemoryVisitor = std::function<void(const void *, std::size_t)>;
// f(what the array is for, its begin, its bytes)
using MemoryPartVisitor = std::function<void(const char *, const void *, std::size_t)>;
// A MemoryVisitor of arrays that serve one purpose. The MemoryPartVisitor must outlive it.
struct PartVisitor {
  const char *name;
  const MemoryPartVisitor &f;
  void operator()(const void *data, std::size_t bytes) const { f(name, data, bytes); }
};
inline PartVisitor part_of_memory(const char *name, const MemoryPartVisitor &f) {
  return {name, f};
}

template <class M, class = void>
constexpr bool IS_ARRAY = false;
template <class M>
constexpr bool
    IS_ARRAY<M, std::void_t<decltype(std::declval<const M &>().data()), decltype(std::declval<const M &>().bytes())>> =
        true;
template <class M, class = void>
constexpr bool VISITS_MEMORY = false;
template <class M>
constexpr bool
    VISITS_MEMORY<M, std::void_t<decltype(std::declval<const M &>().for_memory(std::declval<MemoryVisitor>()))>> = true;
template <class M, class = void>
constexpr bool HAS_MEMBERS = false;
template <class M>
constexpr bool HAS_MEMBERS<M, std::void_t<decltype(std::declval<const M &>().members())>> = true;
template <class M, class = void>
constexpr bool IS_RANGE = false;
template <class M>
constexpr bool IS_RANGE<M, std::void_t<decltype(std::begin(std::declval<const M &>()))>> = true;

template <class F, class... Members>
void visit_memory(const F &f, const Members &...members);

// A member is an array with functions data() and bytes(), an object with a list of members or with a function
// for_memory(f), a vector, or a pointer or an optional to one of these. A null pointer has no arrays.
template <class F, class M>
void visit_member(const F &f, const M &member) {
  if constexpr (IS_ARRAY<M>) {
    f(member.data(), member.bytes());
  } else if constexpr (VISITS_MEMORY<M>) {
    member.for_memory(f);
  } else if constexpr (HAS_MEMBERS<M>) {
    std::apply([&](const auto &...members) { visit_memory(f, members...); }, member.members());
  } else if constexpr (IS_RANGE<M>) {
    using Element = std::remove_cv_t<std::remove_reference_t<decltype(*std::begin(member))>>;
    if constexpr (std::is_trivially_copyable_v<Element>)
      f(member.data(), member.capacity() * sizeof(Element));
    else
      for (const Element &element : member) visit_member(f, element);
  } else if (member) {    // does not compile for a class without a list
    visit_member(f, *member);
  }
}

// Calls f, which is a MemoryVisitor, for all arrays of these members.
template <class F, class... Members>
void visit_memory([[maybe_unused]] const F &f, const Members &...members) {
  (visit_member(f, members), ...);
}
template <class... Members>
std::size_t bytes_of(const Members &...members) {
  std::size_t sum = 0;
  visit_memory([&](const void *, std::size_t bytes) { sum += bytes; }, members...);
  return sum;
}

// For functions that call f(array, its future size) for some arrays: such an f, which visits the memory that they have,
// and the bytes that all of them will add.
template <class F>
auto without_sizes(const F &f) {
  return [&f](const auto &array, auto) { visit_memory(f, array); };
}

template <class Visit>
std::size_t sum_of_additional_bytes(const Visit &visit) {
  std::size_t sum = 0;
  visit([&](const auto &array, auto size) { sum += array.additional_bytes(size); });
  return sum;
}

}    // namespace equi

#endif
