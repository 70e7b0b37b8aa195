"""What is not as it was at the commit at which the whole tree was clean (deploy/clean-commit names it), and who includes it.

As a program it prints the headers that are to be compiled again: those that changed, or include what changed; all of them
where nobody knows what changed.

usage: deploy/changed.py [--whole] HEADER...
"""

import hashlib
import os
import re
import subprocess
import sys

CLEAN_COMMIT = 'deploy/clean-commit'
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


class Hashes:
    """The content of a file and of everything of ours that it includes, as one hash."""

    def __init__(self, root):
        self.root = root
        self.read = {}

    def _file(self, path):
        """(hash of the content, what it includes) of a file below the root, or None if there is none."""
        if path not in self.read:
            try:
                with open(os.path.join(self.root, path), 'rb') as source:
                    text = source.read()
                includes = [name.decode() for name in INCLUDE.findall(text)]
                self.read[path] = (hashlib.sha256(text).hexdigest(), includes)
            except OSError:
                self.read[path] = None
        return self.read[path]

    def includes(self, path):
        """The file and all of ours that it includes, or that what it includes is generated from."""
        seen, left = set(), [path]
        while left:
            name = re.sub(r'(\.grpc)?\.pb\.h$', '.proto', left.pop())
            if name in seen:
                continue
            seen.add(name)
            entry = self._file(name)
            if entry:
                left.extend(entry[1])
        return seen

    def of(self, path):
        total = hashlib.sha256()
        for name in sorted(self.includes(path)):
            entry = self._file(name)
            total.update(f'{name} {entry[0] if entry else "-"}\n'.encode())
        return total.hexdigest()


def changed_files(root):
    """Paths that differ from deploy/clean-commit, or None if nobody knows."""
    try:
        with open(os.path.join(root, CLEAN_COMMIT), encoding='utf-8') as text:
            commit = text.read().strip()
    except OSError:
        return None
    def git(*words):
        done = subprocess.run(['git', *words], cwd=root, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout.splitlines() if done.returncode == 0 else None
    differ, new = git('diff', '--name-only', commit), git('ls-files', '--others', '--exclude-standard')
    if differ is None or new is None:
        return None
    return set(differ) | set(new)


def main():
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), '..'))
    words = sys.argv[1:]
    changed = None if '--whole' in words else changed_files(root)
    hashes = Hashes(root)
    for header in words:
        if header != '--whole' and (changed is None or not changed.isdisjoint(hashes.includes(header))):
            print(header)


if __name__ == '__main__':
    main()
