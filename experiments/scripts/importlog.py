"""Filters logs where they lie: only lines that can tell anything travel, in one stream.

argv: the markers as JSON (experiments/metrics.Markers).
stdin: NUL-terminated, first the known contents as JSON, [[bytes, sha256]..], of which there may be more than an
argument holds, then "number", "path", ... stdout, for each path, one of
  "file N HEXPATH BYTES MODE" LF, a gzip member, "end SHA256 BYTES [HEXTEXT]" LF
  "known N HEXPATH BYTES SHA256" LF
  "error N HEXPATH HEXTEXT" LF
and first of all "with TOOL" LF. An empty path stands for a pattern that nothing matched: "none N" LF.
"prefix SHA256" LF may stand before an end: that known content is how this one begins. The member holds, in
MODE raw, the content; in MODE rows, "k N" LF and N bytes that were kept, "s BYTES LINES" LF for what was left
out. HEXTEXT says why a file was not read to its end. Needs Python 3.8 and nothing else.
"""
import binascii
import collections
import hashlib
import json
import os
import re
import stat
import sys
import zlib

BLOCK = 4 << 20
WHOLE = 256 << 10  # smaller files travel as they are
LONG = 16 << 20  # of a line, which then travels as it is
PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz", b"BZh9": "bzip2"}

# Who wrote a line, as finely as the reader tells writers apart, or finer.
WRITER = re.compile(rb"(?:\s*(?:\d{4}-\d\d-\d\dT\S+\s|[^\s:|\[\]]*\.(?:log|txt|out|err)(?:\.\d+)?[:-]|\[pod/[^\]]*\]|[A-Za-z][\w.-]* +\|))*")
CRI = re.compile(rb"^(.*?)\d{4}-\d\d-\d\dT\S+ (stdout|stderr) ([FP])(?: |$)")
DOCKER = re.compile(rb'^(.*?)\{"log":')
DOCKER_WHOLE = re.compile(rb'\\n","stream":"(stdout|stderr)"')
DOCKER_PART = re.compile(rb'","stream":"(stdout|stderr)"')
LINE, OPENER, ALIVE, PART, HINT = range(5)


class Filter:
    """Keeps a line or leaves it out. feed takes whole lines; only the last call may end within one."""

    def __init__(self, markers, out):
        self.out = out
        self.words = [(m["word"].encode(), (LINE, m["after"])) for m in markers["lines"]]
        self.words += [(w.encode(), (OPENER, 0)) for w in markers["openers"]]
        self.hints = [[w.encode() for w in group] for group in markers["hints"]]
        self.hinted = [False] * len(self.hints)
        self.served, self.post = [w.encode() for w in markers["alive"]]
        self.guard = markers["guard"]
        self.quote = re.compile(b"(?:" + b"|".join(re.escape(w.encode()) for w in markers["quotes"]) + rb")\\?(['\"])")
        self.window = 0  # further lines to keep; -1 = all
        self.alive = None  # writers seen alive since the last crash marker; None: there was none yet
        self.cut = set()  # writers of a record that a container runtime cut and did not yet end
        self.kept, self.left, self.newlines = [], 0, 0

    def feed(self, b):
        found = {} if self.window < 0 else self.find(b)
        at = 0
        for start in sorted(found):
            at = self.stretch(b, at, start)
            if self.window < 0:
                break
            end = b.find(b"\n", start) + 1 or len(b)
            inside = self.window > 0
            if inside:
                self.window -= 1
            if self.wanted(b[start:end], found[start], inside):
                self.keep(b, start, end)
            else:
                self.skip(b, start, end)
            at = end
        self.stretch(b, at, len(b))
        self.flush()

    def stretch(self, b, at, stop):
        """Takes lines without a marker: they count as far as the window reaches."""
        if self.window < 0:
            self.keep(b, at, stop)
            return stop
        if self.window and self.alive is not None:
            self.alive = set()
        while self.window and at < stop:
            end = b.find(b"\n", at) + 1 or len(b)
            self.keep(b, at, end)
            self.window -= 1
            at = end
        self.skip(b, at, stop)
        return stop

    def find(self, b):
        """The lines with a marker: {start: [marker, ..]}."""
        found = {}
        for word, kind in self.words:
            self.every(b, word, kind, found)
        if not b.endswith(b"\n"):
            found.setdefault(b.rfind(b"\n") + 1, []).append((LINE, 0))
        if self.cut or b" stdout P" in b or b" stderr P" in b or b.count(b'{"log":') != len(DOCKER_WHOLE.findall(b)):
            start = 0
            while start < len(b):
                found.setdefault(start, []).append((PART, 0))
                start = b.find(b"\n", start) + 1 or len(b)
        if self.alive is not None or self.window or any(k[1] for kinds in found.values() for k in kinds):
            self.every(b, self.served, (ALIVE, 0), found)
        for i, group in enumerate(self.hints):
            if not self.hinted[i]:
                for word in group:
                    self.every(b, word, (HINT, i), found)
        return found

    @staticmethod
    def every(b, word, kind, found):
        at = b.find(word)
        while at >= 0:
            found.setdefault(b.rfind(b"\n", 0, at) + 1, []).append(kind)
            at = b.find(b"\n", at)
            if at >= 0:
                at = b.find(word, at)

    def wanted(self, line, kinds, inside):
        keep = inside
        for kind, n in kinds:
            if kind == LINE:
                keep = True
                self.widen(n)
            elif kind == OPENER and self.opens(line):
                keep = True
                self.widen(self.guard)
            elif kind == PART and self.part(line):
                keep = True
        if inside or self.window:
            self.alive = set()
        for kind, n in kinds:
            if kind == ALIVE and self.alive is not None and self.post in line:
                writer = WRITER.match(line).group()
                if writer not in self.alive:
                    self.alive.add(writer)
                    keep = True
            elif kind == HINT and not keep and not self.hinted[n]:
                self.hinted[n] = keep = True
        return keep

    def widen(self, n):
        self.window = -1 if n < 0 or self.window < 0 else max(self.window, n)

    def opens(self, line):
        """Whether a quoted prompt may go on in the next line."""
        for m in self.quote.finditer(line):
            q = re.escape(m.group(1))
            if not re.search(rb"(?:^|[^\\])" + q + rb"(?:[,)\]}]|\s*$)", line[m.end():]):
                return True
        return False

    def part(self, line):
        m = CRI.match(line)
        if m:
            key, more = m.group(1, 2), m.group(3) == b"P"
        else:
            m = DOCKER.match(line)
            if not m:
                return bool(self.cut)
            name = DOCKER_PART.search(line)
            key, more = (m.group(1), name and name.group(1)), not DOCKER_WHOLE.search(line)
        open_before = bool(self.cut)
        (self.cut.add if more else self.cut.discard)(key)
        return more or open_before

    def keep(self, b, start, end):
        if start >= end:
            return
        self.note()
        if self.kept and self.kept[-1][0] is b and self.kept[-1][2] == start:
            self.kept[-1][2] = end
        else:
            self.kept.append([b, start, end])

    def skip(self, b, start, end):
        if start < end:
            if self.kept:
                self.flush()
            self.left += end - start
            self.newlines += b.count(b"\n", start, end)

    def note(self):
        if self.left:
            self.out.write(b"s %d %d\n" % (self.left, self.newlines))
            self.left = self.newlines = 0

    def flush(self):
        for b, start, end in self.kept:
            self.out.write(b"k %d\n" % (end - start))
            self.out.write(b[start:end])
        self.kept = []

    def long(self, b):
        """Takes a part of a very long line: as it is, and what it may mean for the next lines."""
        self.keep(b, 0, len(b))
        self.flush()
        self.alive = set()
        self.widen(512)

    def finish(self):
        self.flush()
        self.note()


class Raw:
    """Keeps everything."""

    def __init__(self, out):
        self.feed = self.long = out.write

    def finish(self):
        pass


class Member:
    """One gzip member on standard output."""

    def __init__(self, to):
        self.to = to
        self.pack = zlib.compressobj(8, zlib.DEFLATED, 31, 9)  # rows are alike: level 8 saves a tenth

    def write(self, b):
        self.to.write(self.pack.compress(b))

    def close(self):
        self.to.write(self.pack.flush())


def chunks(f, size):
    """The first size bytes of a file, unpacked when they are gzip."""
    head = f.read(min(BLOCK, size))
    if head[:2] != b"\x1f\x8b":
        while head:
            yield head
            size -= len(head)
            head = f.read(min(BLOCK, size))
        if size > 0:
            raise EOFError("the file became shorter while it was read")
        return
    unpack, within = zlib.decompressobj(47), False
    while head:
        size -= len(head)
        while head:
            out, within = unpack.decompress(head, BLOCK), True
            if out:
                yield out
            head = unpack.unconsumed_tail
            if unpack.eof:
                head, unpack, within = unpack.unused_data.lstrip(b"\0"), zlib.decompressobj(47), False
        head = f.read(min(BLOCK, size))
    if within:
        raise EOFError("the compressed data ends in the middle")


def isdocument(head):
    """Whether it begins like JSON, which is read as a whole (metrics.looksJSON, or more)."""
    head = head[3:] if head[:3] == b"\xef\xbb\xbf" else head
    head = head.lstrip(b" \t\r\n\0")
    if head.startswith((b'{"log":', b'{"specrun":')):
        return False
    following = head[1:].lstrip(b" \t\r\n")[:1]
    return head[:1] == b"{" and following in (b'"', b"}", b"") or head[:1] == b"[" and following in (b"{", b"]", b"")


def send(f, size, number, name, markers, known, out):
    source = chunks(f, size)
    first = next(source, b"")
    raw = size < WHOLE or isdocument(first)
    out.write(b"file %s %s %d %s\n" % (number, name, size, b"raw" if raw else b"rows"))
    member, total, tail, sum_, why, begins = Member(out), 0, b"", hashlib.sha256(), "", []
    to = Raw(member) if raw else Filter(markers, member)
    marks = collections.deque(sorted({n for n, _ in known if n}))
    try:
        long = False
        b = first
        while b:
            done = 0
            while marks and marks[0] <= total + len(b):
                n = marks.popleft()
                sum_.update(b[done:n - total])
                done = n - total
                if (n, sum_.hexdigest()) in known:
                    begins.append((n, sum_.hexdigest()))
            sum_.update(b[done:])
            total += len(b)
            end = b.rfind(b"\n") + 1
            if end == 0 and len(tail) + len(b) < LONG and not long:
                tail += b
            elif end == 0:
                to.long(tail + b)
                tail, long = b"", True
            else:
                if long:
                    cut = b.find(b"\n") + 1
                    to.long(b[:cut])
                    b, end, long = b[cut:], end - cut, False
                if tail or end:
                    to.feed(tail + b[:end])
                tail = b[end:]
            b = next(source, b"")
    except (EOFError, OSError, zlib.error) as e:
        why = str(e) or type(e).__name__
    if tail:
        to.feed(tail)
    to.finish()
    member.close()
    for n, s in begins:
        if n < total:
            out.write(b"prefix %s\n" % s.encode())
    out.write(b"end %s %d %s\n" % (sum_.hexdigest().encode(), total, binascii.hexlify(why.encode())))


def hashed(f, size):
    """The hash of the first size bytes, or None when there are fewer."""
    sum_ = hashlib.sha256()
    for b in iter(lambda: f.read(min(BLOCK, size)), b""):
        sum_.update(b)
        size -= len(b)
    f.seek(0)
    return None if size else sum_.hexdigest()


def one(number, path, markers, known, out):
    name = binascii.hexlify(path)
    try:
        st = os.stat(path)
        if stat.S_ISDIR(st.st_mode):
            raise IsADirectoryError(0, "is a folder: name its files, as in " + os.fsdecode(path).rstrip("/") + "/*.log")
        if not stat.S_ISREG(st.st_mode):
            raise OSError(0, "is no regular file")
        with open(path, "rb", buffering=0) as f:
            size = os.fstat(f.fileno()).st_size
            head = f.read(4)
            f.seek(0)
            if head in PACKED:
                raise OSError(0, "is packed by %s: unpack it first" % PACKED[head])
            if any(size == n for n, _ in known):
                sum_ = hashed(f, size)
                if (size, sum_) in known:
                    out.write(b"known %s %s %d %s\n" % (number, name, size, sum_.encode()))
                    return
            send(f, size, number, name, markers, known, out)
    except OSError as e:
        text = e.strerror or str(e) or type(e).__name__
        out.write(b"error %s %s %s\n" % (number, name, binascii.hexlify(text.encode("utf-8", "replace"))))


def again(path, seen):
    """Whether the file was sent already, under this name or another."""
    try:
        st = os.stat(path)
    except OSError:
        return False
    if (st.st_dev, st.st_ino) in seen:
        return True
    seen.add((st.st_dev, st.st_ino))
    return False


def main():
    markers = json.loads(sys.argv[1])
    told, *words = sys.stdin.buffer.read().split(b"\0")[:-1]
    known = {(n, s) for n, s in json.loads(told)}
    out = sys.stdout.buffer
    out.write(b"with python%d.%d\n" % sys.version_info[:2])
    seen = set()
    for number, path in zip(words[::2], words[1::2]):
        if not path:
            out.write(b"none %s\n" % number)
        elif not again(path, seen):
            one(number, path, markers, known, out)
        out.flush()


if __name__ == "__main__":
    main()
