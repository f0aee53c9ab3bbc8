/* listen.c - addresses to bound sockets. */
#include "abci_query/transport.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static kv_code bad_address(const char *address, kv_status *status)
{
    return kv_fail(
        status, KV_INVALID,
        "%s is no address to serve; write tcp://127.0.0.1:26657, tcp://[::1]:26657 or "
        "unix:///run/statekv.sock",
        address);
}

/* A socket file that nobody listens on any more may be replaced. */
static void remove_stale(const struct sockaddr_un *where)
{
    struct stat info;
    if (stat(where->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return;
    if (connect(probe, (const struct sockaddr *)where, sizeof(*where)) != 0 &&
        errno == ECONNREFUSED)
        unlink(where->sun_path);
    close(probe);
}

static kv_code bind_local(const char *path, struct query_listener *out, kv_status *status)
{
    struct sockaddr_un where = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(where.sun_path))
        return kv_fail(status, KV_INVALID, "unix://%s: the path is over %zu bytes", path,
                       sizeof(where.sun_path) - 1);
    memcpy(where.sun_path, path, strlen(path));
    remove_stale(&where);
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (out->fd < 0 || bind(out->fd, (const struct sockaddr *)&where, sizeof(where)) != 0) {
        int fault = errno;
        query_listener_close(out, false);
        return kv_fail(status, KV_IO, "unix://%s: %s", path, strerror(fault));
    }
    out->local = true;
    snprintf(out->name, sizeof(out->name), "unix://%s", path);
    return KV_OK;
}

static int bind_one(const struct addrinfo *found, bool shared)
{
    int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    if (found->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        (shared || listen(fd, 1) == 0)) /* a taken port shows at listen at the latest */
        return fd;
    int fault = errno;
    close(fd);
    errno = fault;
    return -1;
}

/* The address with the port that was really taken. */
static void name_listener(struct query_listener *listener, const char *host)
{
    struct sockaddr_storage where;
    socklen_t size = sizeof(where);
    char port[16] = "0";
    if (getsockname(listener->fd, (struct sockaddr *)&where, &size) == 0)
        getnameinfo((struct sockaddr *)&where, size, NULL, 0, port, sizeof(port),
                    NI_NUMERICSERV);
    snprintf(listener->name, sizeof(listener->name),
             strchr(host, ':') != NULL ? "tcp://[%s]:%s" : "tcp://%s:%s", host, port);
}

/* getaddrinfo takes any number and keeps its lower 16 bits. */
static bool is_port(const char *text)
{
    size_t size = strspn(text, "0123456789");
    return size > 0 && size <= 5 && text[size] == '\0' && strtoul(text, NULL, 10) <= 65535;
}

static kv_code bind_tcp(const char *address, bool shared, struct query_listener *out,
                        kv_status *status)
{
    char host[256];
    const char *place = address + strlen("tcp://"), *port = strrchr(place, ':');
    if (port == NULL || port == place || !is_port(port + 1) || strlen(place) >= sizeof(host))
        return bad_address(address, status);
    size_t size = (size_t)(port - place);
    if (place[0] == '[' && place[size - 1] == ']') {
        place++;
        size -= 2;
    }
    memcpy(host, place, size);
    host[size] = '\0';

    struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE },
                    *found = NULL;
    int fault = getaddrinfo(host, port + 1, &want, &found);
    if (fault != 0)
        return kv_fail(status, KV_INVALID, "%s: %s", address, gai_strerror(fault));
    for (struct addrinfo *at = found; at != NULL && out->fd < 0; at = at->ai_next)
        out->fd = bind_one(at, shared);
    int bound = errno;
    freeaddrinfo(found);
    if (out->fd < 0)
        return kv_fail(status, KV_IO, "%s: %s", address, strerror(bound));
    name_listener(out, host);
    return KV_OK;
}

kv_code query_listener_bind(const char *address, bool shared, struct query_listener *out,
                            kv_status *status)
{
    *out = (struct query_listener){ .fd = -1 };
    if (strncmp(address, "unix://", 7) == 0 && address[7] != '\0')
        return bind_local(address + 7, out, status);
    if (strncmp(address, "tcp://", 6) == 0)
        return bind_tcp(address, shared, out, status);
    return bad_address(address, status);
}

void query_listener_close(struct query_listener *listener, bool unlink_path)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
    if (unlink_path && listener->local)
        unlink(listener->name + strlen("unix://"));
}
