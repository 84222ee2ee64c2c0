package abi

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// ParseVersion parses the version of a module or build: strict SemVer 2.0.0 without a
// leading v, with pre-releases and build metadata.
func ParseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		return nil, fmt.Errorf("bad version %q, want MAJOR.MINOR.PATCH", s)
	}
	return v, nil
}

// CompareVersions orders versions for display: the newest first, by SemVer precedence
// (SemVer 2.0.0 §11), but every release before every pre-release. Build metadata, which has
// no precedence, is compared last by its spelling, so that the order is total.
func CompareVersions(a, b *semver.Version) int {
	return cmp.Or(
		cmp.Compare(min(len(a.Prerelease()), 1), min(len(b.Prerelease()), 1)),
		b.Compare(a),
		strings.Compare(b.Metadata(), a.Metadata()),
	)
}

// VersionTag returns the tag of a version. Tags cannot contain the + of build metadata,
// which becomes an underscore, as in Helm; SemVer has no underscore, so the mapping is
// reversible.
func VersionTag(version string) string { return strings.Replace(version, "+", "_", 1) }

// TargetTag returns the tag of one target of a build: VERSION-TARGET.
func TargetTag(version, target string) string { return VersionTag(version) + "-" + target }

// TagVersion parses the version in a tag. It does not tell what the tag refers to:
// 1.0.0-laptop is a pre-release as well as a target of 1.0.0, and only the artifact decides
// ([TagMeaning]).
func TagVersion(tag string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(strings.Replace(tag, "_", "+", 1))
	if err != nil || VersionTag(v.String()) != tag {
		return nil, fmt.Errorf("tag %q is not a version", tag)
	}
	return v, nil
}

// Meaning is the meaning of a tag for its artifact.
type Meaning int

// The meanings of a tag.
const (
	MeansChannel Meaning = iota // "latest", "stable": a moving name
	MeansVersion                // the artifact's version
	MeansTarget                 // the artifact's version and target
	MeansMistake                // the version of another artifact
)

// TagMeaning returns the meaning of tag for an artifact whose annotations have that version
// and target; target is empty for a module and for the index of several targets. The
// annotations decide, not the form of the tag: on version 1.0.0-laptop the tag 1.0.0-laptop
// is the complete build, on target laptop of 1.0.0 it is that target.
func TagMeaning(tag, version, target string) Meaning {
	switch {
	case version != "" && tag == VersionTag(version):
		return MeansVersion
	case version != "" && target != "" && tag == TargetTag(version, target):
		return MeansTarget
	}
	if _, err := TagVersion(tag); err == nil {
		return MeansMistake
	}
	return MeansChannel
}
