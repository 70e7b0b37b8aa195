#include "rpc/base/intrusive_list.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <vector>

#include "rpc/base/rng.h"

namespace skua {
namespace {

struct Element {
  int before = 0;
  ListHook hook;
  ListHook other_hook;
  int value = 0;
};

using List = IntrusiveList<Element, &Element::hook>;
using OtherList = IntrusiveList<Element, &Element::other_hook>;

std::vector<int> values_of(List& list) {
  std::vector<int> out;
  for (Element* e = list.empty() ? nullptr : &list.front(); e != nullptr; e = list.next(*e)) {
    out.push_back(e->value);
  }
  return out;
}

TEST(IntrusiveList, PushBack_KeepsOrder) {
  std::array<Element, 3> elements;
  List list;
  EXPECT_TRUE(list.empty());
  for (int i = 0; i < 3; ++i) {
    elements[static_cast<size_t>(i)].value = i;
    list.push_back(elements[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(values_of(list), (std::vector{0, 1, 2}));
  EXPECT_EQ(&list.front(), &elements[0]);
}

TEST(IntrusiveList, PopFront_UnlinksAndEndsWithNull) {
  Element a;
  List list;
  list.push_back(a);
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_FALSE(a.hook.linked());
  EXPECT_EQ(list.pop_front(), nullptr);
}

TEST(IntrusiveList, Unlink_FromMiddleAndWhenOnNoList) {
  std::array<Element, 3> elements;
  List list;
  for (size_t i = 0; i < 3; ++i) {
    elements[i].value = static_cast<int>(i);
    list.push_back(elements[i]);
  }
  elements[1].hook.unlink();
  elements[1].hook.unlink();
  EXPECT_EQ(values_of(list), (std::vector{0, 2}));
  list.push_back(elements[1]);
  EXPECT_EQ(values_of(list), (std::vector{0, 2, 1}));
}

TEST(IntrusiveList, PushBack_OneListPerHook) {
  Element a;
  List list;
  OtherList other;
  list.push_back(a);
  other.push_back(a);
  EXPECT_EQ(other.pop_front(), &a);
  EXPECT_EQ(&list.front(), &a);
}

TEST(IntrusiveList, Destructor_UnlinksWhatIsLeft) {
  Element a;
  {
    List list;
    list.push_back(a);
  }
  EXPECT_FALSE(a.hook.linked());
}

TEST(IntrusiveListDeathTest, PushBack_Twice) {
  Element a;
  List list;
  list.push_back(a);
  EXPECT_DEATH(list.push_back(a), "on a list already");
}

TEST(IntrusiveListDeathTest, Element_DiesWhileLinked) {
  EXPECT_DEATH(
      {
        List list;
        Element a;
        list.push_back(a);
      },
      "destroyed while on a list");
}

TEST(IntrusiveList, RandomOperations_AgreeWithStdList) {
  Rng rng(5);
  std::vector<Element> elements(50);
  for (size_t i = 0; i < elements.size(); ++i) elements[i].value = static_cast<int>(i);
  List list;
  std::list<int> twin;
  for (int round = 0; round < 20'000; ++round) {
    Element& element = elements[rng.below(elements.size())];
    if (element.hook.linked()) {
      element.hook.unlink();
      twin.remove(element.value);
    } else if (rng.chance(0.9)) {
      list.push_back(element);
      twin.push_back(element.value);
    } else if (Element* first = list.pop_front(); first != nullptr) {
      ASSERT_EQ(first->value, twin.front());
      twin.pop_front();
    }
    ASSERT_EQ(list.empty(), twin.empty());
    if (!twin.empty()) {
      ASSERT_EQ(list.front().value, twin.front());
    }
  }
  EXPECT_EQ(values_of(list), std::vector<int>(twin.begin(), twin.end()));
}

}  // namespace
}  // namespace skua
