package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// memoryMarker is the location by which ONNX Runtime marks data in its own
// memory; in a file the offset would be an address to read from.
const memoryMarker = "_ORT_MEM_ADDR_"

// Location returns the path of the file with the elements, as in the model
// without the leading ./ that some exporters write.
func (e *External) Location() string {
	v, _ := e.get("location")
	return strings.TrimPrefix(v, "./")
}

func (e *External) get(key string) (string, bool) {
	i := slices.IndexFunc(e.Entries, func(en Entry) bool { return en.Key == key })
	if i < 0 {
		return "", false
	}
	return e.Entries[i].Value, true
}

// Range returns the offset and the length in bytes of a tensor's elements in
// its external file. It returns an error if they are not integers, overflow, or
// do not match dtype and dimensions.
func (t *Tensor) Range() (offset, length int64, err error) {
	n, ok := elements(t.Dims)
	if !ok || !t.DType.Known() || t.External == nil {
		return 0, 0, fmt.Errorf("tensor is not external or has an invalid dtype or dimensions")
	}
	need, ok := t.DType.rawSize(n)
	if !ok {
		return 0, 0, fmt.Errorf("dimensions %v of %s need more than 2^63 bytes", t.Dims, t.DType)
	}
	if offset, err = t.External.number("offset", 0); err != nil {
		return 0, 0, err
	}
	if length, err = t.External.number("length", need); err != nil {
		return 0, 0, err
	}
	switch {
	case length != need:
		return 0, 0, fmt.Errorf("length is %d bytes, %s %v needs %d", length, t.DType, t.Dims, need)
	case offset > math.MaxInt64-length:
		return 0, 0, fmt.Errorf("offset %d and length %d exceed 2^63", offset, length)
	}
	return offset, length, nil
}

// number parses a decimal number strictly.
func (e *External) number(key string, absent int64) (int64, error) {
	s, ok := e.get(key)
	if !ok {
		return absent, nil
	}
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil || strconv.FormatUint(v, 10) != s {
		return 0, fmt.Errorf("invalid %s %q, want an integer below 2^63", key, s)
	}
	return int64(v), nil
}

// external checks the location and the range of a tensor's elements.
func (c *checker) external(at *place, t *Tensor) {
	seen := make(map[string]bool)
	for _, en := range t.External.Entries {
		switch en.Key {
		case "location", "offset", "length", "checksum", "basepath":
		default:
			c.fail(RuleKey, at, "unknown key %q", en.Key)
		}
		if seen[en.Key] {
			c.fail(RuleKey, at, "duplicate key %q", en.Key)
		}
		seen[en.Key] = true
	}
	if base, _ := t.External.get("basepath"); base != "" {
		c.fail(RuleKey, at, "base path %q is not allowed", base)
	}
	location := t.External.Location()
	if err := CheckLocation(location); err != nil {
		c.fail(RuleLocation, at, "%v", err)
		return
	}
	offset, length, err := t.Range()
	if err != nil {
		c.fail(RuleRange, at, "%v", err)
		return
	}
	c.uses[location] = append(c.uses[location], use{offset, length, at})
	if c.opt.External == nil {
		return
	}
	size, err := c.opt.External(location)
	switch {
	case errors.Is(err, ErrLinked):
		c.fail(RuleLink, at, "file %q is %v", location, err)
		return
	case err != nil:
		c.fail(RuleFile, at, "file %q is not declared: %v", location, err)
		return
	case offset+length > size:
		c.fail(RuleRange, at, "bytes %d to %d exceed %q of %d bytes", offset, offset+length, location, size)
	}
	c.files[location] = size
}

// ErrLinked reports that a file of external data is a link or has several
// names, so that its owner is unknown.
var ErrLinked = errors.New("a link")

// use is a tensor's range of an external file.
type use struct {
	offset, length int64
	at             *place
}

// overlaps refuses tensors whose ranges overlap partially. Equal ranges are
// allowed, for tied weights.
func (c *checker) overlaps() {
	for _, location := range slices.Sorted(maps.Keys(c.uses)) {
		uses := c.uses[location]
		slices.SortStableFunc(uses, func(a, b use) int {
			return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.length, b.length))
		})
		for i, last := 1, uses[0]; i < len(uses); i++ {
			u := uses[i]
			if u.length == 0 || u.offset == last.offset && u.length == last.length {
				continue
			}
			if last.length > 0 && u.offset < last.offset+last.length {
				c.fail(RuleOverlap, u.at, "bytes %d to %d of %q overlap those of %s, %d to %d",
					u.offset, u.offset+u.length, location, last.at, last.offset, last.offset+last.length)
			}
			if u.offset+u.length > last.offset+last.length || last.length == 0 {
				last = u
			}
		}
	}
}

// CheckLocation refuses every location that is not, on all operating systems, a
// plain relative path below the model's folder.
func CheckLocation(location string) error {
	bad := func(why string) error { return fmt.Errorf("location %q %s", location, why) }
	switch {
	case location == "":
		return bad("is empty")
	case strings.Contains(location, memoryMarker):
		return bad("is a memory address")
	case strings.ContainsRune(location, 0):
		return bad("holds a NUL")
	case strings.Contains(location, `\`):
		return bad("holds a backslash")
	case strings.HasPrefix(location, "/"):
		return bad("is absolute")
	case strings.Contains(location, ":"):
		return bad("holds a colon: a drive, a scheme or a stream")
	case slices.Contains(strings.Split(location, "/"), ".."):
		return bad("leaves the model's folder")
	case path.Clean(location) != location || location == ".":
		return bad("is not in its shortest form")
	case strings.ContainsFunc(location, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("holds a control character")
	}
	for _, part := range strings.Split(location, "/") {
		stem, _, _ := strings.Cut(part, ".")
		if strings.HasSuffix(part, " ") || strings.HasSuffix(part, ".") || reserved[strings.ToUpper(strings.TrimRight(stem, " "))] {
			return bad("names a device or ends in a dot or space, which Windows does not distinguish")
		}
	}
	return nil
}

// reserved lists the device names of Windows.
var reserved = func() map[string]bool {
	m := map[string]bool{"CON": true, "PRN": true, "AUX": true, "NUL": true}
	for i := range 10 {
		m[fmt.Sprintf("COM%d", i)], m[fmt.Sprintf("LPT%d", i)] = true, true
	}
	return m
}()

// Externals returns the locations of the model's external data, unchecked,
// sorted and without duplicates.
func (m *Model) Externals() []string {
	var out []string
	m.walk(visitor{tensor: func(_ *place, t *Tensor) {
		if t.External != nil {
			out = append(out, t.External.Location())
		}
	}})
	slices.Sort(out)
	return slices.Compact(out)
}
