// SPDX-License-Identifier: BSD-3-Clause
// What a heap knows of its classes, and what it says when they are not the program's.
#include "perdure/object/types.h"

#include <array>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/object.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Image;
using testing::thrown_by;

/// Opens the heap in `image` as that of `Root`; the error's text, or "".
template <class Root, class Body>
std::string in_heap(Image& image, Body body) {
  Pool pool = image.pool().value();
  auto heap = object_heap<Root>::in_pool(pool);
  if (!heap) return std::string(code_name(heap.error().code)) + ": " + heap.error().message;
  object_heap<Root> opened = std::move(heap).value();
  opened.atomically([&](local<Root> root) { body(opened, root); });
  return "";
}
template <class Root>
std::string opened_as(Image& image) {
  return in_heap<Root>(image, [](auto&, auto) {});
}

namespace v1 {
struct Leaf : object<Leaf> {
  static constexpr const char* persistent_name = "Leaf";
  field<int> value;
  PERDURE_FIELDS(Leaf, value);
};
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  ref<Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Root, number, other, leaf, reserved);
};
}  // namespace v1

Image written_by_v1() {
  Image image = Image::formatted();
  EXPECT_EQ(in_heap<v1::Root>(image,
                              [](auto& heap, auto root) {
                                root->number = 7u;
                                root->leaf = heap.template make<v1::Leaf>();
                                root->leaf->value = 8;
                              }),
            "");
  return image;
}

namespace moved {
struct Blatt : object<Blatt> {
  static constexpr const char* persistent_name = "Leaf";
  field<int> value;
  PERDURE_FIELDS(Blatt, value);
};
struct Wurzel : object<Wurzel> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  ref<Blatt> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Wurzel, number, other, leaf, reserved);
};
}  // namespace moved

TEST(Types, APersistentNameLetsAClassMove) {
  Image image = written_by_v1();
  EXPECT_EQ(in_heap<moved::Wurzel>(image,
                                   [](auto&, auto root) {
                                     EXPECT_EQ(root->number, 7u);
                                     EXPECT_EQ(root->leaf->value, 8);
                                   }),
            "");
}

namespace v2 {  // takes over what was reserved, and brings new classes
struct Leaf : object<Leaf> {
  static constexpr const char* persistent_name = "Leaf";
  field<int> value;
  ~Leaf() {}
  PERDURE_FIELDS(Leaf, value);
};
struct New : object<New> {
  static constexpr const char* persistent_name = "New";
  weak_ref<Leaf> leaf;
  PERDURE_FIELDS(New, leaf);
};
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  ref<Leaf> leaf;
  ref<New> added;
  field<std::uint64_t> reserved;
  ref<array<ref<New>>> rows;
  PERDURE_FIELDS(Root, number, other, leaf, added, reserved, rows);
};
}  // namespace v2

TEST(Types, ReservedFieldsAreTakenOverAndClassesAdded) {
  Image image = written_by_v1();
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(in_heap<v2::Root>(image,
                                [&](auto& heap, auto root) {
                                  EXPECT_EQ(root->number, 7u);
                                  EXPECT_EQ(root->leaf->value, 8);
                                  EXPECT_EQ(static_cast<bool>(root->added), again == 1);
                                  root->added = heap.template make<v2::New>();
                                  root->added->leaf = root->leaf;
                                  root->rows = heap.template make_array<ref<v2::New>>(3);
                                  root->rows.get()[2] = root->added;
                                }),
              "");
  }
  EXPECT_THAT(opened_as<v1::Root>(image), AllOf(HasSubstr("type-mismatch"), HasSubstr("added")));
  EXPECT_EQ(opened_as<v2::Root>(image), "");  // nothing was changed by who was refused
}

namespace wrong_type {
struct Leaf : object<Leaf> {
  static constexpr const char* persistent_name = "Leaf";
  field<unsigned> value;
  PERDURE_FIELDS(Leaf, value);
};
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  ref<Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Root, number, other, leaf, reserved);
};
}  // namespace wrong_type
namespace larger {
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  ref<v1::Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  field<std::uint64_t> more;
  PERDURE_FIELDS(Root, number, other, leaf, reserved, more);
};
}  // namespace larger
namespace reordered {
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> other;
  field<std::uint32_t> number;
  ref<v1::Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Root, other, number, leaf, reserved);
};
}  // namespace reordered
namespace renamed {
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> count;
  field<std::uint32_t> other;
  ref<v1::Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Root, count, other, leaf, reserved);
};
}  // namespace renamed
namespace weakened {
struct Root : object<Root> {
  static constexpr const char* persistent_name = "Root";
  field<std::uint32_t> number;
  field<std::uint32_t> other;
  weak_ref<v1::Leaf> leaf;
  field<std::array<std::uint64_t, 3>> reserved;
  PERDURE_FIELDS(Root, number, other, leaf, reserved);
};
}  // namespace weakened

TEST(Types, ChangedClassesAreRefusedWithTheDifference) {
  Image image = written_by_v1();
  EXPECT_THAT(opened_as<wrong_type::Root>(image),
              AllOf(HasSubstr("type-mismatch"), HasSubstr("class Leaf"),
                    HasSubstr("only in the heap:    i32 value at byte 0, 4 bytes"),
                    HasSubstr("only in the program: u32 value at byte 0, 4 bytes")));
  EXPECT_THAT(opened_as<larger::Root>(image),
              AllOf(HasSubstr("class Root"), HasSubstr("40 bytes, the program's 48"),
                    HasSubstr("only in the program: u64 more at byte 40")));
  EXPECT_THAT(opened_as<reordered::Root>(image),
              AllOf(HasSubstr("only in the heap:    u32 number at byte 0"),
                    HasSubstr("only in the program: u32 number at byte 4")));
  EXPECT_THAT(opened_as<renamed::Root>(image), AllOf(HasSubstr("only in the heap:    u32 number"),
                                                     HasSubstr("only in the program: u32 count")));
  EXPECT_THAT(opened_as<weakened::Root>(image),
              AllOf(HasSubstr("only in the heap:    ref<Leaf> leaf at byte 8"),
                    HasSubstr("only in the program: weak_ref<Leaf> leaf at byte 8")));
  EXPECT_THAT(opened_as<v1::Leaf>(image),
              AllOf(HasSubstr("type-mismatch"), HasSubstr("of the class Root, not Leaf")));
  EXPECT_EQ(in_heap<v1::Root>(image, [](auto&, auto root) { EXPECT_EQ(root->leaf->value, 8); }),
            "");
}

// ---- names --------------------------------------------------------------------------------------

struct Twin : object<Twin> {
  static constexpr const char* persistent_name = "Twins";
  field<int> value;
  PERDURE_FIELDS(Twin, value);
};
struct Twins : object<Twins> {
  static constexpr const char* persistent_name = "Twins";
  ref<Twin> twin;
  PERDURE_FIELDS(Twins, twin);
};

TEST(Types, TwoClassesOfOneNameAreRefusedAtOnce) {
  Image image = Image::formatted();
  EXPECT_THAT(opened_as<Twins>(image), AllOf(HasSubstr("misuse"), HasSubstr("Twins")));
}

struct Spaced : object<Spaced> {
  static constexpr const char* persistent_name = "two words";
  field<int> value;
  PERDURE_FIELDS(Spaced, value);
};
struct Nameless : object<Nameless> {
  static constexpr const char* persistent_name = "";
  field<int> value;
  PERDURE_FIELDS(Nameless, value);
};

TEST(Types, NamesThatCouldNotBeReadAgainAreRefusedAtOnce) {
  Image image = Image::formatted();
  EXPECT_THAT(opened_as<Spaced>(image), AllOf(HasSubstr("misuse"), HasSubstr("two words")));
  EXPECT_THAT(opened_as<Nameless>(image), HasSubstr("misuse"));
  EXPECT_EQ(opened_as<v1::Root>(image), "");
}

// ---- classes of many kinds ----------------------------------------------------------------------

template <class A, class B>
struct Both : object<Both<A, B>> {
  field<A> a;
  field<B> b;
  PERDURE_FIELDS(Both, a, b);
};
struct Empty : object<Empty> {
  PERDURE_FIELDS(Empty);
};
struct Kinds : object<Kinds> {
  ref<Both<int, unsigned long>> both;
  ref<Empty> empty;
  ref<array<field<unsigned long long>>> numbers;
  weak_ref<Kinds> self_ref;
  std::array<weak_ref<Empty>, 4> row;
  field<bool> last;
  PERDURE_FIELDS(Kinds, both, empty, numbers, self_ref, row, last);
};

TEST(Types, TemplatesAndEmptyClassesAndNamelessNamespacesAreReadAgain) {
  Image image = Image::formatted();
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(in_heap<Kinds>(image,
                             [&](auto& heap, auto root) {
                               EXPECT_EQ(static_cast<bool>(root->both), again > 0);
                               root->both = heap.template make<Both<int, unsigned long>>();
                               root->empty = heap.template make<Empty>();
                               root->row[3] = root->empty;
                               root->numbers =
                                   heap.template make_array<field<unsigned long long>>(4);
                             }),
              "");
  }
}

TEST(Types, DescriptionsAreReadAgain) {
  for (const TypeInfo& type : detail::describe(detail::TypesFrom<Kinds>{})) {
    Result<TypeInfo> again = TypeInfo::parse(type.text());
    ASSERT_TRUE(again) << type.text();
    EXPECT_EQ(again.value().text(), type.text());
    EXPECT_TRUE(type.can_stand_for(again.value()));
    EXPECT_EQ(type.difference(again.value()), "");
  }
}

/// Sanitizers see the rest.
TEST(Types, DamagedDescriptionsAreRefusedOrOthers) {
  const std::string text = detail::Describe<v1::Root>::info().text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    static_cast<void>(TypeInfo::parse(text.substr(0, i)));
    for (const char c : {'\0', '\n', ' ', '-', '9', 'x', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      static_cast<void>(TypeInfo::parse(damaged));
    }
  }
  EXPECT_FALSE(TypeInfo::parse(""));
  EXPECT_FALSE(TypeInfo::parse("A 8 array\n"));
  EXPECT_FALSE(TypeInfo::parse("A 8 class\nref a B 4 8 1\n"));
  EXPECT_FALSE(TypeInfo::parse("A 8 class\nref a B 8 8 1\n"));
  EXPECT_FALSE(TypeInfo::parse("A 8 class\nvalue a B 0 -8 1\n"));
}

}  // namespace
}  // namespace perdure
