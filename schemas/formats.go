package schemas

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spdx"
)

// format is a text format that the schemas name and Go checks.
type format struct {
	code  diag.Code
	check func(string) error
	want  string // description of valid values
}

var formats = map[string]format{
	"name":     {diag.WrongForm, match(abi.ValidName), "lower-case letters and digits joined by . - _"},
	"semver":   {diag.BadVersion, func(s string) error { _, err := abi.ParseVersion(s); return err }, "MAJOR.MINOR.PATCH, such as 1.3.0"},
	"ref":      {diag.BadRef, func(s string) error { _, err := abi.ParseModuleRef(s); return err }, "name@version, such as core-llm@3.1.0"},
	"spdx":     {diag.BadLicense, func(s string) error { _, err := spdx.Parse(s); return err }, "an SPDX expression, such as Apache-2.0"},
	"path":     {diag.BadPath, match(ValidPath), "a relative path with forward slashes and no .."},
	"source":   {diag.BadPath, match(func(s string) bool { return ValidPath(s) || validAddress(s) }), "a relative path with forward slashes and no .., or the address of an object, such as s3://BUCKET/KEY"},
	"digest":   {diag.WrongForm, match(abi.ValidDigest), "sha256: and 64 hex digits"},
	"cpu":      {diag.BadLimit, match(func(s string) bool { _, ok := ParseCPU(s); return ok }), `cores, such as "1" or "500m"`},
	"mem":      {diag.BadLimit, match(func(s string) bool { _, ok := ParseMem(s); return ok }), `a size, such as "512Mi"`},
	"duration": {diag.WrongForm, match(func(s string) bool { d, err := time.ParseDuration(s); return err == nil && d >= 0 && d <= maxDuration }), `a duration of at most a year, such as "90s" or "6h"`},
	"when":     {diag.WrongForm, func(s string) error { _, err := ParseWhen(s); return err }, "YYYY-MM-DD or an RFC 3339 time"},
}

// maxDuration is the maximum duration in a document.
const maxDuration = 366 * 24 * time.Hour

type formError string

func (e formError) Error() string { return string(e) }

func match(ok func(string) bool) func(string) error {
	return func(s string) error {
		if ok(s) {
			return nil
		}
		return formError("")
	}
}

// ValidPath reports whether s is a relative slash path within its folder: clean, no .., no
// backslash, colon or control character, no element that Windows reserves, that a shell
// expands or takes for an option or that artifacts must not have (registry/artifact), at
// most 255 bytes.
func ValidPath(s string) bool {
	if s == "" || len(s) > 255 || s[0] == '/' || strings.ContainsAny(s, "\\:*?\"<>|") {
		return false
	}
	if strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xFFFD }) >= 0 {
		return false
	}
	for _, e := range strings.Split(s, "/") {
		if e == "" || e == "." || e == ".." || reserved().MatchString(e) || e[0] == '~' || e[0] == '-' || kept().MatchString(e) || strings.HasSuffix(e, ".") || strings.HasSuffix(e, " ") {
			return false
		}
	}
	return true
}

// maxAddress bounds the address of an object in bytes.
const maxAddress = 1200

// validAddress reports whether s may be the address of an object in a bucket.
func validAddress(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "s3" && scheme != "gs" && scheme != "azure" || len(s) > maxAddress || strings.ContainsAny(rest, "\\:?#") {
		return false
	}
	return strings.Contains(rest, "/") && fs.ValidPath(rest) && !strings.ContainsFunc(rest, unicode.IsControl)
}

var reserved = once(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?$`)

// kept are the folders of git, other programs and mm.
var kept = once(`(?i)^(\.git|git~1|\.hg|\.svn|\.bzr|\.ssh|\.gnupg|\.vscode|\.idea|\.mm|\.mm-checkout)$`)

var (
	cpuForm = once(`^([0-9]{1,6})(m?)$|^([0-9]{1,4}\.[0-9]{1,3})$`)
	memForm = once(`^([0-9]{1,12})(Ki|Mi|Gi|k|M|G)?$`)
)

// ParseCPU parses a number of cores as in Kubernetes and returns thousandths of a core.
func ParseCPU(s string) (milli int64, ok bool) {
	m := cpuForm().FindStringSubmatch(s)
	switch {
	case m == nil:
		return 0, false
	case m[3] != "":
		integer, frac, _ := strings.Cut(m[3], ".")
		milli = number(integer)*1000 + number((frac + "00")[:3])
	case m[2] == "m":
		milli = number(m[1])
	default:
		milli = number(m[1]) * 1000
	}
	return milli, milli > 0
}

// ParseMem parses a memory size as in Kubernetes and returns bytes.
func ParseMem(s string) (bytes int64, ok bool) {
	m := memForm().FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	unit := map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[m[2]]
	n := number(m[1])
	if n == 0 || n > (1<<50)/unit {
		return 0, false
	}
	return n * unit, true
}

// number parses decimal digits whose count a pattern limits.
func number(s string) (n int64) {
	for _, c := range s {
		n = n*10 + int64(c-'0')
	}
	return n
}

// ParseWhen parses a day, which ends at its last second in UTC, or a time.
func ParseWhen(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.Add(24*time.Hour - time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("bad date or time %q", s)
	}
	return t, nil
}
