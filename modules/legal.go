package modules

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// maxLegal bounds the license and notice files of a module.
const maxLegal = 64

// legalFolder holds texts named by their SPDX identifier, as the REUSE specification has
// them.
const legalFolder = "LICENSES"

// IsLegal reports whether a file of a module is a license text or a notice: LICENSE,
// LICENCE, COPYING or NOTICE, with any suffix, or LICENSES/ID.txt. Such files belong to the
// module without being listed.
func IsLegal(path string) bool {
	if rest, ok := strings.CutPrefix(path, legalFolder+"/"); ok {
		return strings.HasSuffix(rest, ".txt") && !strings.Contains(rest, "/")
	}
	name := strings.ToUpper(path)
	for _, stem := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE"} {
		if rest, ok := strings.CutPrefix(name, stem); ok {
			return rest == "" || strings.ContainsAny(rest[:1], ".-_") && !strings.Contains(rest, "/")
		}
	}
	return false
}

// IsNotice reports whether a legal file is a notice.
func IsNotice(path string) bool {
	return IsLegal(path) && strings.HasPrefix(strings.ToUpper(path), "NOTICE")
}

// findLegal lists the license and notice files of the folder.
func (m *Manifest) findLegal(list *diag.List) {
	for _, dir := range []string{".", legalFolder} {
		entries, err := os.ReadDir(filepath.Join(m.dir, dir))
		if err != nil {
			continue // the folder of texts is optional
		}
		for _, e := range entries {
			path := filepath.ToSlash(filepath.Join(dir, e.Name()))
			if e.IsDir() || !IsLegal(path) {
				continue
			}
			if len(m.legal) == maxLegal {
				list.Add(diag.TooLarge, diag.Pos{File: m.dir}, fmt.Sprintf("%s: more than %d license and notice files", m.ID(), maxLegal), "join them into one")
				return
			}
			m.legal = append(m.legal, path)
		}
	}
}
