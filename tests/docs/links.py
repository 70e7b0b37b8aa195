"""Links of documents: the file that a link names must be there, and the heading."""

import os
import re

LINK = re.compile(r'\]\(([^)#\s]*)(?:#([^)\s]*))?\)')


def broken(path):
    """One line for each link that leads nowhere. Links to other sites are not looked at, nor those to pages that the
    repository's site makes (../../)."""
    with open(path, encoding='utf-8') as text:
        lines = text.read().splitlines()
    for number, line in outside_blocks(lines):
        for name, heading in LINK.findall(line):
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if re.match(r'\w+:', name) or name.startswith('../../'):
                continue
            if not os.path.exists(target):
                yield f'{number}: there is no {name}'
            elif heading and target.endswith('.md') and heading not in headings(target):
                yield f'{number}: {name or "this document"} has no heading #{heading}'


def headings(path):
    """As GitHub names them in links."""
    with open(path, encoding='utf-8') as text:
        lines = text.read().splitlines()
    found = set()
    for _, line in outside_blocks(lines):
        match = re.match(r'#+ (.*)', line)
        if match:
            words = re.sub(r'[^\w\- ]', '', match[1].strip().lower())
            found.add(words.replace(' ', '-'))
    return found


def outside_blocks(lines):
    """Lines that are no code, with their numbers."""
    in_block = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith('```'):
            in_block = not in_block
        elif not in_block:
            yield number, line
