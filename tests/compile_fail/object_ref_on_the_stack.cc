// Expect: use of deleted function
#include "perdure/object.h"

perdure::ref<int> on_the_stack;
