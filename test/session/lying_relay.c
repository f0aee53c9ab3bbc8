/*
 * lying_relay.c - a teacher that lies, as a process: passes bytes between a learner
 * and an honest teacher on this machine, and turns one bit of each 997th byte that the
 * teacher sends after the first 1,000, or HONEST. Prints its port; serves until it is
 * killed, at the loopback address unless another is given.
 *
 *     lying_relay PORT-OF-THE-TEACHER [HONEST [ADDRESS]]
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { HONEST = 1000, EVERY = 997 };

static size_t honest = HONEST;

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return address;
}

static bool send_all(int to, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = write(to, bytes, size);

        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Pass on what `from` has; `passed` counts bytes and is NULL where nothing is bent. */
static bool pass(int from, int to, size_t *passed)
{
    char bytes[4096];
    ssize_t size = read(from, bytes, sizeof bytes);

    if (size <= 0)
        return false;
    for (ssize_t i = 0; passed != NULL && i < size; i++, ++*passed)
        if (*passed > honest && *passed % EVERY == 0)
            bytes[i] = (char)(bytes[i] ^ 1);
    return send_all(to, bytes, (size_t)size);
}

static void serve(int learner, int port)
{
    struct sockaddr_in address = loopback(port);
    int teacher = socket(AF_INET, SOCK_STREAM, 0);
    size_t passed = 0;

    if (connect(teacher, (struct sockaddr *)&address, sizeof address) == 0) {
        struct pollfd files[2] = { { learner, POLLIN, 0 }, { teacher, POLLIN, 0 } };

        while (poll(files, 2, -1) > 0) {
            if (files[0].revents != 0 && !pass(learner, teacher, NULL))
                break;
            if (files[1].revents != 0 && !pass(teacher, learner, &passed))
                break;
        }
    }
    close(teacher);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    signal(SIGPIPE, SIG_IGN); /* who is lied to hangs up */
    if (argc > 2)
        honest = strtoul(argv[2], NULL, 10);
    if (argc < 2 || argc > 4 ||
        (argc == 4 && inet_pton(AF_INET, argv[3], &address.sin_addr) != 1) ||
        bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 8) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        perror("lying_relay");
        return 2;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int learner = accept(listener, NULL, NULL);

        if (learner < 0)
            return 1;
        serve(learner, (int)strtol(argv[1], NULL, 10));
        close(learner);
    }
}
