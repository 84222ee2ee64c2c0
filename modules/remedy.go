package modules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"mm-abi.org/mm/internal/fsx"
)

// maxText is the maximum size of a file whose line ends are compared, in bytes.
const maxText = 16 << 20

// remedy is the hint for a file of other bytes than declared. Only for a file that may have
// been edited on purpose is it the declaration of the new digest.
func remedy(root *os.Root, path string, want File) string {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return ""
	}
	switch kind := fsx.Sniff(data); {
	case kind == fsx.Pointer:
		return "git lfs pull fetches the file"
	case kind == fsx.HTML || kind == fsx.Empty:
		return "the file is " + string(kind) + ": fetch it again"
	case len(data) <= maxText && lineEnds(data, want):
		return "line ends were changed on checkout: add the line * -text to .gitattributes and check the file out again"
	case int64(len(data)) < want.Size && kind != fsx.Text:
		return "the file is cut: fetch it again"
	}
	return "restore the file, or declare its new digest"
}

// lineEnds reports whether data with the other line ends has the declared digest.
func lineEnds(data []byte, want File) bool {
	lf := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	for _, b := range [][]byte{lf, bytes.ReplaceAll(lf, []byte("\n"), []byte("\r\n"))} {
		if sum := sha256.Sum256(b); int64(len(b)) == want.Size && hex.EncodeToString(sum[:]) == want.SHA256 {
			return true
		}
	}
	return false
}

// outside is the hint for a file that is a link to a place outside of its module's folder.
func outside(dir, path string) string {
	to, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("it is a link to %s, outside of the module: copy the file, or make a hard link", to)
}
