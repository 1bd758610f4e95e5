// Linked against a library whose constructor does everything.
int early_done(void);

int main(void) {
    return early_done() == 1 ? 0 : 1;
}
