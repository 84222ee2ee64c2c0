package abi

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// ParseVersion reads a module's or a build's version: strict SemVer 2.0.0, no
// leading v. Pre-releases and build metadata are part of it.
func ParseVersion(s string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(s)
	if err != nil {
		return nil, fmt.Errorf("%q is no semantic version (MAJOR.MINOR.PATCH)", s)
	}
	return v, nil
}

// CompareVersions orders versions for people: the newest first, by the
// precedence of SemVer (SemVer 2.0.0 §11), but every release before every
// pre-release. Build metadata, which has no precedence, is compared last and
// by its spelling, so that the order never depends on where one looked first.
func CompareVersions(a, b *semver.Version) int {
	return cmp.Or(
		cmp.Compare(min(len(a.Prerelease()), 1), min(len(b.Prerelease()), 1)),
		b.Compare(a),
		strings.Compare(b.Metadata(), a.Metadata()),
	)
}

// VersionTag is the tag of a version. A tag cannot hold the + of build
// metadata, which becomes an underscore, as Helm writes it; SemVer has no
// underscore of its own, so nothing is lost.
func VersionTag(version string) string { return strings.Replace(version, "+", "_", 1) }

// TargetTag is the tag of one target of a build: VERSION-TARGET.
func TargetTag(version, target string) string { return VersionTag(version) + "-" + target }

// TagVersion reads the version that a tag spells, if it spells one. It says
// nothing about what the tag is on: 1.0.0-laptop is a pre-release as well as a
// target of 1.0.0, and only the artifact knows ([TagMeaning]).
func TagVersion(tag string) (*semver.Version, error) {
	v, err := semver.StrictNewVersion(strings.Replace(tag, "_", "+", 1))
	if err != nil || VersionTag(v.String()) != tag {
		return nil, fmt.Errorf("tag %q is that of no version", tag)
	}
	return v, nil
}

// Meaning is what a tag says of the artifact it is on.
type Meaning int

// The meanings of a tag.
const (
	MeansChannel Meaning = iota // "latest", "stable": a name that moves on
	MeansVersion                // the artifact's own version, whole
	MeansTarget                 // the artifact's own version and target
	MeansMistake                // a version, but not this artifact's
)

// TagMeaning says what tag means on an artifact whose annotations give its
// version and target; target is empty for a module and for the index over
// several targets. The annotations decide, never the look of the tag: on
// version 1.0.0-laptop the tag 1.0.0-laptop is the whole build, on target
// laptop of 1.0.0 it is that target.
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
