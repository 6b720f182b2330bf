/* Waits for SIGINT or SIGTERM and reaps children: the process that holds a pod's sandbox open. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number) { (void)number; exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
