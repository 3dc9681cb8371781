"""A small web server of this process, for those who ask it: how soon it answers is the test's."""

import asyncio
import contextlib
import threading

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"


@contextlib.contextmanager
def answering(wait):
    """Answer each request once the coroutine `wait()` has ended; the port."""
    ready, loop, state = threading.Event(), asyncio.new_event_loop(), {}

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                await wait()
                writer.write(PAGE)
        writer.close()

    async def serve():
        state["server"] = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.set()

    thread = threading.Thread(target=lambda: (loop.create_task(serve()), loop.run_forever()))
    thread.start()
    ready.wait(10)
    try:
        yield state["server"].sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
