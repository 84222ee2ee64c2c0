package native

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"

	"mm-abi.org/mm/internal/fsx"
)

// The licenses of engines, which their packages lack, with the sources of the
// notices for their components.
var (
	//go:embed notices/onnxruntime.txt
	onnxruntimeNotice string
	//go:embed notices/llamacpp.txt
	llamacppNotice string
	//go:embed notices/openvino.txt
	openvinoNotice string
	//go:embed notices/litert.txt
	litertNotice string
	//go:embed notices/qnn.txt
	qnnNotice string
)

// licenseName is the file with the engine's license.
const licenseName = "LICENSE-engine.txt"

// license writes the engine's license next to its libraries, unless they came with
// one.
func license(p pinned, stage *fsx.Dir, files map[string]string) error {
	if files[licenseName] != "" {
		return nil
	}
	if err := stage.WriteFile("engine/"+licenseName, []byte(p.notice), 0o600); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(p.notice))
	files[licenseName] = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}
