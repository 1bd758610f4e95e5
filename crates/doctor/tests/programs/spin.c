/* Busy waiting: threads in pairs hand a turn to each other and wait for it in a loop. Each pair
 * works for a moment before it hands the turn over. */
#include "diseases.h"

struct pair {
  atomic_int turn;
  char room[124];
};

struct side {
  struct pair *pair;
  int number;
};

__attribute__((noinline)) static void wait_for_turn(struct pair *pair, int number) {
  while (atomic_load_explicit(&pair->turn, memory_order_acquire) != number) {
    pause_a_moment();
  }
}

static void *player(void *argument) {
  struct side *side = argument;
  for (;;) {
    wait_for_turn(side->pair, side->number);
    work(10000);
    atomic_store_explicit(&side->pair->turn, !side->number, memory_order_release);
  }
  return NULL;
}

int main(void) {
  long pairs = 2 * cpus();
  struct pair *all = calloc((size_t)pairs, sizeof *all);
  struct side *sides = calloc((size_t)pairs, 2 * sizeof *sides);
  for (long side = 0; side < 2 * pairs; side++) {
    sides[side] = (struct side){&all[side / 2], (int)(side % 2)};
    start(player, &sides[side]);
  }
  run_until_told();
}
