/* Makes system calls by number, which bash cannot do. Prints "ok" or the error. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static char zeros[4096];

static int answer(long result) {
    puts(result < 0 ? strerrorname_np(errno) : "ok");
    return 0;
}

static struct sockaddr_in local(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void *beat(void *file) {
    for (;;) {
        FILE *f = fopen(file, "w");
        if (f)
            fclose(f);
        usleep(5000);
    }
}

int main(int n, char **words) {
    const char *what = n > 1 ? words[1] : "";
    if (!strcmp(what, "call")) {
        long a[6] = {0};
        for (int i = 3; i < n && i < 9; i++)
            a[i - 3] = words[i][0] == '@' ? (long)zeros
                       : words[i][0] == '/' ? (long)words[i] : strtol(words[i], 0, 0);
        return answer(syscall(strtol(words[2], 0, 0), a[0], a[1], a[2], a[3], a[4], a[5]));
    }
    if (!strcmp(what, "unix")) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strncpy(address.sun_path, words[2], sizeof address.sun_path - 1);
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        return answer(s < 0 ? s : connect(s, (void *)&address, sizeof address));
    }
    if (!strcmp(what, "listen")) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strncpy(address.sun_path, words[2], sizeof address.sun_path - 1);
        int s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (s < 0 || bind(s, (void *)&address, sizeof address) || listen(s, 1))
            return answer(-1);
        answer(0);
        fflush(stdout);
        pause();
    }
    if (!strcmp(what, "headless")) {
        /* The main thread exits and another one continues. */
        pthread_t thread;
        if (pthread_create(&thread, 0, beat, words[2]))
            return answer(-1);
        pthread_exit(0);
    }
    if (!strcmp(what, "tcp")) {
        struct sockaddr_in address = local(atoi(words[2]));
        int s = socket(AF_INET, SOCK_STREAM, 0);
        return answer(s < 0 ? s : connect(s, (void *)&address, sizeof address));
    }
    if (!strcmp(what, "udp")) {
        struct sockaddr_in address = local(atoi(words[2]));
        int s = socket(AF_INET, SOCK_DGRAM, 0);
        return answer(s < 0 ? s : sendto(s, "x", 1, 0, (void *)&address, sizeof address));
    }
    if (!strcmp(what, "pair")) {
        /* A server and its client in one process. */
        struct sockaddr_in address = local(0);
        socklen_t size = sizeof address;
        int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
        if (s < 0 || bind(s, (void *)&address, size) || listen(s, 1) ||
            getsockname(s, (void *)&address, &size))
            return answer(-1);
        return answer(connect(c, (void *)&address, size));
    }
    if (!strcmp(what, "serve")) {
        struct sockaddr_in address = local(0);
        socklen_t size = sizeof address;
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (s < 0 || bind(s, (void *)&address, size) || listen(s, 1) ||
            getsockname(s, (void *)&address, &size))
            return answer(-1);
        printf("%d\n", ntohs(address.sin_port));
        fflush(stdout);
        pause();
    }
    if (!strcmp(what, "swap")) {
        for (;;)
            syscall(SYS_renameat2, AT_FDCWD, words[2], AT_FDCWD, words[3], 2);
    }
    /* Each process only forks the next one and exits, so that none lives long. */
    if (!strcmp(what, "chain")) {
        for (int i = 0; i < 60000; i++) {
            if (fork())
                _exit(0);
            setsid();
            int file = open(words[2], O_CREAT | O_WRONLY | O_APPEND, 0600);
            if (write(file, "x", 1) < 0)
                _exit(1);
            close(file);
            usleep(200);
        }
        return 0;
    }
    if (!strcmp(what, "ptrace"))
        return answer(ptrace(PTRACE_SEIZE, atoi(words[2]), 0, 0));
#ifdef __x86_64__
    if (!strcmp(what, "int80")) {
        /* mkdir through the 32-bit system call interface. */
        static char *path;
        long result;
        path = words[2];
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L), "b"(path) : "memory");
        puts("ok");
        return 0;
    }
#endif
    puts("what?");
    return 2;
}
