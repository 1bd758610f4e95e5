// A library whose constructor calls the program.
void in_the_loader(void) __attribute__((weak));

__attribute__((constructor)) static void begin(void) {
    if (in_the_loader) in_the_loader();
}
