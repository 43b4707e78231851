// SPDX-License-Identifier: BSD-3-Clause
// A library in a file: objects that refer to each other, survive crashes, and end when nothing leads to them.
#include <iostream>

#include "perdure/object.h"

using perdure::chars;
using perdure::field;
using perdure::handle;
using perdure::local;
using perdure::ref;
using perdure::weak_ref;

struct Book : perdure::object<Book> {
  field<std::uint32_t> year;
  ref<chars> title;
  ref<Book> next;
  weak_ref<Book> sequel;
  void init(std::uint32_t of, std::string_view called) {
    year = of;
    title = perdure::make_text(called);
  }
  PERDURE_FIELDS(Book, year, title, next, sequel);
};
struct Library : perdure::object<Library> {
  ref<Book> newest;
  field<std::uint64_t> bought;
  PERDURE_FIELDS(Library, newest, bought);
};

int main() {
  auto heap = perdure::object_heap<Library>::open_or_create("library.heap").value();
  handle<Book> favourite = heap.atomically([&](local<Library> library) {
    auto first = heap.make<Book>(1968u, "A Wizard of Earthsea");
    auto second = heap.make<Book>(1970u, "The Tombs of Atuan");
    first->sequel = second;
    second->next = first;
    first->next = library->newest;
    library->newest = second;
    library->bought += 2;
    return handle<Book>(first);
  });
  heap.atomically([](local<Library> library) { library->newest = nullptr; });
  // Its sequel has ended with the shelf; the favourite lives as long as the handle.
  return heap.read_only([&](local<Library> library) {
    std::cout << favourite->title->text() << " (" << favourite->year << "), "
              << (favourite->sequel ? "with" : "without") << " a sequel; " << library->bought
              << " bought\n";
    return favourite->sequel ? 1 : 0;
  });
}
