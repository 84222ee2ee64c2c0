package artifact

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxPath bounds the length of a file's path in bytes; it is the length of one
// name on the common file systems.
const maxPath = 255

// deviceNames cannot be files on Windows, whatever their extension.
var deviceNames = map[string]bool{
	"con": true, "prn": true, "aux": true, "nul": true,
	"com1": true, "com2": true, "com3": true, "com4": true, "com5": true, "com6": true, "com7": true, "com8": true, "com9": true,
	"lpt1": true, "lpt2": true, "lpt3": true, "lpt4": true, "lpt5": true, "lpt6": true, "lpt7": true, "lpt8": true, "lpt9": true,
}

// CheckoutDir is mm's folder in the target of a checkout. No artifact may hold
// it.
const CheckoutDir = ".mm-checkout"

// keptNames are folders whose files control programs: of version control, in which
// a hook or a setting runs code, of ssh and editors, and mm's. git~1 is the short
// name of the first on Windows.
var keptNames = map[string]bool{
	".git": true, "git~1": true, ".hg": true, ".svn": true, ".bzr": true, ".ssh": true, ".gnupg": true, ".vscode": true, ".idea": true,
	".mm": true, CheckoutDir: true,
}

// CheckPath refuses paths that are not a clean relative path on every system:
// absolute, drive, "..", backslash, control characters, names that Windows
// keeps for itself or shortens, that a shell expands or takes for an option, the
// folders of git, other programs and mm at any depth, more than 255 bytes.
func CheckPath(p string) error {
	if p == "" || len(p) > maxPath {
		return fmt.Errorf("path length: got %d bytes, want 1 to %d", len(p), maxPath)
	}
	if path.IsAbs(p) || path.Clean(p) != p || p == "." {
		return fmt.Errorf("path %q is not clean and relative", Shorten(p))
	}
	for _, r := range p {
		if r == unicode.ReplacementChar || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(`\:*?"<>|`, r) {
			return fmt.Errorf("path %q has the character %U", Shorten(p), r)
		}
	}
	for _, name := range strings.Split(p, "/") {
		stem, _, _ := strings.Cut(strings.ToLower(name), ".")
		if name == ".." || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || deviceNames[strings.TrimRight(stem, " ")] {
			return fmt.Errorf("path %q has the name %q", Shorten(p), Shorten(name))
		}
		if strings.HasPrefix(name, "~") || strings.HasPrefix(name, "-") {
			return fmt.Errorf("path %q: name %q begins with %q", Shorten(p), Shorten(name), name[:1])
		}
		if keptNames[fold(name)] {
			return fmt.Errorf("path %q: folder %q is reserved", Shorten(p), Shorten(name))
		}
	}
	return nil
}

// PathSet holds paths that can all be in one folder, on file systems that
// ignore case or normalize Unicode too.
type PathSet struct {
	files, dirs map[string]string // folded → original
}

// Add refuses a path that is invalid, a duplicate, a folder of another path or
// below a file, in another case too.
func (s *PathSet) Add(p string) error {
	if err := CheckPath(p); err != nil {
		return err
	}
	if s.files == nil {
		s.files, s.dirs = map[string]string{}, map[string]string{}
	}
	key := fold(p)
	if other, ok := s.files[key]; ok {
		return fmt.Errorf("path %q collides with %q", Shorten(p), Shorten(other))
	}
	if other, ok := s.dirs[key]; ok {
		return fmt.Errorf("path %q is a folder in %q", Shorten(p), Shorten(other))
	}
	s.files[key] = p
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if other, ok := s.files[dir]; ok {
			return fmt.Errorf("path %q is below the file %q", Shorten(p), Shorten(other))
		}
		s.dirs[dir] = p
	}
	return nil
}

// fold maps paths that a file system may treat as equal to one string.
func fold(p string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(p)))
}
