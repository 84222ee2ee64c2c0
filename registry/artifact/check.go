package artifact

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/abi"
)

// ErrManifest reports a manifest, index or config that mm refuses: malformed,
// beyond the limits, of another kind, or unsafe. Its bytes match their digest.
var ErrManifest = errors.New("manifest refused")

// ErrABI reports an artifact for a version of MM-ABI that this mm does not
// support.
var ErrABI = errors.New("unknown version of MM-ABI")

// fetchError marks an error of fetching.
type fetchError struct{ error }

func (e fetchError) Unwrap() error { return e.error }

// refuseManifest marks err as one of content, unless it is one of fetching or of
// another kind of artifact.
func refuseManifest(err error) error {
	var fetch fetchError
	if err == nil || errors.As(err, &fetch) || errors.Is(err, ErrForeign) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrManifest, err)
}

// CheckABI refuses an artifact for an unknown version of MM-ABI. An artifact
// without a version is a ModelPack artifact of another tool.
func (a *Artifact) CheckABI() error { return checkABI(a.Annotations) }

func checkABI(annotations map[string]string) error {
	if v, ok := annotations[abi.AnnotationABI]; ok && !abi.Version(v).Known() {
		return fmt.Errorf("%w: %q", ErrABI, Shorten(v))
	}
	return nil
}
