// SPDX-License-Identifier: BSD-3-Clause
// The types of C++ inside transactions: references, enumerations, bool, members and arrays of classes, copies by constructor
// and assignment, and pointers to members, on persistent and on volatile memory.
#include <array>
#include <cstdint>
#include <cstring>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"

#define SAFE __attribute__((transaction_safe, noinline))

enum class Color : std::uint8_t { kRed = 1, kGreen = 2, kBlue = 200 };
enum class Far : std::int64_t { kHere = 0, kThere = -5'000'000'000 };

struct Inner {
  std::int16_t small;
  bool flag;
  Color color;
  Far far;
};

struct Everything {
  Inner inner[3];
  char name[13];
  double real;
  Inner* link;
  std::int32_t matrix[2][3];
  std::array<std::uint16_t, 5> array;
};

pstatic Everything durable = {};
Everything ordinary = {};

SAFE void flip(bool& flag) { flag = !flag; }
SAFE Color next(const Color& color) { return color == Color::kRed ? Color::kGreen : Color::kBlue; }
SAFE Inner copy_of(const Inner& inner) { return inner; }

__attribute__((noinline)) void change(Everything& all) {
  all = Everything{};
  all.inner[1].color = Color::kRed;
  Inner local{};
  bool was = true;
  std::int16_t by_pointer = 0;
  std::int16_t Inner::* const which = &Inner::small;
  __transaction_atomic {
    Inner& inner = all.inner[1];
    inner.small = -7;
    was = inner.flag;
    flip(inner.flag);
    inner.color = next(inner.color);
    inner.far = Far::kThere;
    all.inner[2] = inner;
    local = copy_of(all.inner[2]);
    all.link = &all.inner[2];
    all.link->small = static_cast<std::int16_t>(all.link->small - 1);
    by_pointer = all.inner[2].*which;
    for (int i = 0; i < 3; ++i) all.matrix[1][i] = i - 1;
    for (std::size_t i = 0; i < 5; ++i)
      all.array._M_elems[i] = static_cast<std::uint16_t>(i * 1000);
    for (int i = 0; i < 12; ++i) all.name[i] = static_cast<char>('a' + i);
    all.real = all.real + 0.25;
  }
  EXPECT(!was && all.inner[1].flag && all.inner[2].flag && !all.inner[0].flag);
  EXPECT(all.inner[1].small == -7 && all.inner[2].small == -8 && by_pointer == -8);
  EXPECT(all.inner[1].color == Color::kGreen && all.inner[0].color == Color{});
  EXPECT(all.inner[2].far == Far::kThere && all.inner[0].far == Far::kHere);
  EXPECT(local.small == -7 && local.flag && local.color == Color::kGreen);
  EXPECT(all.link == &all.inner[2]);
  EXPECT(all.matrix[1][0] == -1 && all.matrix[1][2] == 1 && all.matrix[0][2] == 0);
  EXPECT(all.array[4] == 4000 && all.array[1] == 1000);
  EXPECT(std::strcmp(all.name, "abcdefghijkl") == 0);
  EXPECT(all.real == 0.25);

  Everything before;
  std::memcpy(&before, &all, sizeof(all));
  __transaction_atomic {
    all.inner[0] = all.inner[1];
    flip(all.inner[1].flag);
    all.inner[1].color = Color::kBlue;
    all.name[3] = '\0';
    all = Everything{};
    local.small = 99;
    if (all.link == nullptr) __transaction_cancel;
  }
  EXPECT(std::memcmp(&before, &all, sizeof(all)) == 0);
  EXPECT(local.small == -7);
}

/// What a constructor stores, and what the compiler copies for it.
struct Point {
  long x, y;
  SAFE Point(long with_x, long with_y) : x(with_x), y(with_y) {}
  SAFE Point(const Point& other) : x(other.x), y(other.y + 1) {}
  SAFE Point& operator=(const Point& other) {
    x = other.x;
    y = other.y + 10;
    return *this;
  }
};

SAFE Point shifted(Point point, long by) {
  point.x += by;
  return point;
}

void copies() {
  Point a(1, 2);
  Point b(0, 0);
  __transaction_atomic {
    const Point c = a;
    b = shifted(c, 5);
    a.x = c.y;
  }
  EXPECT(a.x == 3 && a.y == 2);
  EXPECT(b.x == 6 && b.y >= 2 + 10 + 2);  // one copy more where the compiler could not leave it out
}

int main() {
  change(durable);
  change(ordinary);
  Everything on_the_stack;
  change(on_the_stack);
  copies();
  return expect_status();
}
