/*
 * Loaded into a server with LD_PRELOAD, this makes every fsync and fdatasync take longer by SEMEL_SYNC_DELAY_US
 * microseconds (default 1000). On a file system in memory, where a sync costs nothing, that imitates a network disk
 * whose speed does not drift with the machine's other work.
 *
 * The delay comes after the sync and under the same locks of the server, so that group commit behaves as on a slow disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void delay(void)
{
    const char *setting = getenv("SEMEL_SYNC_DELAY_US");
    long microseconds = setting ? strtol(setting, NULL, 10) : 1000;
    struct timespec left = {microseconds / 1000000, (microseconds % 1000000) * 1000};

    /* The server's signals end a sleep early: sleep the rest. */
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
}

/* The kernel is called directly, because the C library's function of the same name is the one that is replaced. */
static int sync_slowly(long call, int descriptor)
{
    int result = (int)syscall(call, descriptor);
    int error = errno;

    delay();
    errno = error;
    return result;
}

int fsync(int descriptor)
{
    return sync_slowly(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
    return sync_slowly(SYS_fdatasync, descriptor);
}
