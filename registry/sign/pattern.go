package sign

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// pattern is a repository pattern, cut into elements.
type pattern struct {
	text     string
	elements []string
}

// compilePattern checks a pattern. It may hold the characters of repository
// names and hosts with ports, and stars.
func compilePattern(text string) (pattern, error) {
	if text == "" || len(text) > maxPattern {
		return pattern{}, fmt.Errorf("a pattern has 1 to %d bytes", maxPattern)
	}
	elements := splitRepository(text)
	for i, e := range elements {
		switch {
		case e == "":
			return pattern{}, errors.New("an empty element")
		case e != "**" && strings.Contains(e, "**"):
			return pattern{}, fmt.Errorf("** must be a whole element, not part of %q", e)
		case i > 0 && e == "**" && elements[i-1] == "**":
			return pattern{}, errors.New("** after **")
		}
		for _, c := range []byte(e) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("._-:*[]", c) >= 0) {
				return pattern{}, fmt.Errorf("%q in %q is not part of a repository name", c, e)
			}
		}
	}
	return pattern{text: text, elements: elements}, nil
}

// Matches reports whether a pattern of rules matches a repository.
func Matches(text, repository string) (bool, error) {
	p, err := compilePattern(text)
	return err == nil && p.match(splitRepository(repository)), err
}

// match reports whether the pattern matches the elements of a repository, in
// time proportional to the product of their numbers.
func (p pattern) match(repository []string) bool {
	return matchStars(p.elements, repository, func(e string) bool { return e == "**" }, matchElement)
}

// matchElement matches one element; * is any run of bytes.
func matchElement(pattern, element string) bool {
	return matchStars([]byte(pattern), []byte(element),
		func(c byte) bool { return c == '*' },
		func(p, c byte) bool { return p == c })
}

// matchStars matches s against p, in which the items that isStar reports match
// any run of items. On a mismatch only the last star need match one more.
func matchStars[T any](p, s []T, isStar func(T) bool, equal func(p, s T) bool) bool {
	pi, si, star, from := 0, 0, -1, 0
	for si < len(s) {
		switch {
		case pi < len(p) && isStar(p[pi]):
			star, from = pi, si
			pi++
		case pi < len(p) && equal(p[pi], s[si]):
			pi++
			si++
		case star >= 0:
			from++
			pi, si = star+1, from
		default:
			return false
		}
	}
	for pi < len(p) && isStar(p[pi]) {
		pi++
	}
	return pi == len(p)
}

// compare returns 1 if p is the more specific pattern, -1 if q is.
func (p pattern) compare(q pattern) int {
	for i := range max(len(p.elements), len(q.elements)) {
		if c := slices.Compare(weight(p.elements, i), weight(q.elements, i)); c != 0 {
			return c
		}
	}
	return 0
}

// weight ranks the element at i: its class, then its literal characters. A
// pattern that has ended ranks above one that continues with **, since it
// matches nothing longer, and below all if its own last element is **.
func weight(elements []string, i int) []int {
	if i >= len(elements) {
		if elements[len(elements)-1] == "**" {
			return []int{0, 0}
		}
		return []int{2, 0}
	}
	switch e := elements[i]; {
	case e == "**":
		return []int{1, 0}
	case strings.Contains(e, "*"):
		return []int{3, len(e) - strings.Count(e, "*")}
	}
	return []int{4, 0} // two literals are not compared by length: both match
}
