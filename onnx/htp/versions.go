package htp

import (
	"fmt"
	"slices"
)

const nameSDK = "name the SDK of the target's libraries, as in SM8750@2.47"

// release compares the SDK that wrote the context with the target's. An older
// runtime fails with error 5000 for a newer context, without a reason.
func (j *judge) release() {
	if j.t.SDK == nil {
		j.add(AxisSDK, Unknown, j.c.Build, "unspecified", "the target names no SDK", nameSDK)
		return
	}
	target := j.t.SDK.String()
	file, err := ParseVersion(j.c.Build)
	switch {
	case err != nil:
		j.add(AxisSDK, Unknown, fmt.Sprintf("%q", j.c.Build), target, "the file does not name its SDK", "compile it with Qualcomm's libraries")
	case j.c.Backend == HTP && (j.c.API.Major != 5 || file.Major != 2 || j.c.API.Minor != file.Minor):
		j.add(AxisSDK, Unknown, fmt.Sprintf("%s with the backend's interface %s", j.c.Build, j.c.API), target, "the file contradicts itself: SDK 2.n has the interface 5.n", "recompile it")
	case file.Major != j.t.SDK.Major:
		j.add(AxisSDK, Not, j.c.Build, target, "another major version", "compile it with SDK "+target)
	case file.Minor > j.t.SDK.Minor:
		j.add(AxisSDK, Not, j.c.Build, target, "the target's libraries are older than the context: they answer error 5000", fmt.Sprintf("compile it with SDK %s, or put the libraries of %d.%d on the target", target, file.Major, file.Minor))
	default:
		j.add(AxisSDK, Fits, j.c.Build, target, "", "")
	}
}

// interfaces compares the API versions: the major versions must be equal and
// the target's minor version not older.
func (j *judge) interfaces() {
	j.version(AxisCore, j.c.Core, j.sdk.Core)
	j.version(AxisBack, j.c.API, j.sdk.Backend)
}

func (j *judge) version(axis string, file, target Version) {
	none := Version{}
	switch {
	case j.t.SDK == nil:
		j.add(axis, Unknown, file.String(), "unspecified", "the target names no SDK", nameSDK)
	case target == none && j.covered(axis):
		j.add(axis, Fits, file.String(), "of a newer SDK", "", "")
	case target == none:
		j.add(axis, Unknown, file.String(), fmt.Sprintf("unknown for SDK %s", j.t.SDK), "the table of releases lacks it", "mm qnn compat shows the table; --accept "+axis+" goes on without")
	case file == none:
		j.add(axis, Unknown, "none", target.String(), "the file does not state it", "recompile it")
	case file.Major != target.Major:
		j.add(axis, Not, file.String(), target.String(), "another major version", "compile it with SDK "+j.t.SDK.String())
	case file.Minor > target.Minor:
		j.add(axis, Not, file.String(), target.String(), "the target's is older: it answers error 1008 or 5000", "compile it with SDK "+j.t.SDK.String())
	default:
		j.add(axis, Fits, file.String(), target.String(), "", "")
	}
}

// covered reports whether an older release in the table already suffices: APIs
// of one major version only grow.
func (j *judge) covered(axis string) bool {
	for _, s := range SDKs() {
		v, file := s.Core, j.c.Core
		if axis == AxisBack {
			v, file = s.Backend, j.c.API
		}
		if s.Version.Major == j.t.SDK.Major && s.Version.Minor <= j.t.SDK.Minor && v.Major == file.Major && v != (Version{}) && file.Minor <= v.Minor {
			return true
		}
	}
	return false
}

// system compares the versions of libQnnSystem, which reads a context before
// the backend does.
func (j *judge) system() {
	build, err := ParseVersion(j.c.Build)
	none := Version{}
	file := none
	if err == nil {
		file = FindSDK(build).System
	}
	shown := func(v Version) string {
		if v == none {
			return "unknown"
		}
		return v.String()
	}
	switch {
	case j.t.SDK == nil:
		j.add(AxisSystem, Unknown, shown(file), "unspecified", "the target names no SDK", nameSDK)
	case err == nil && build.Major == j.t.SDK.Major && build.Minor == j.t.SDK.Minor:
		j.add(AxisSystem, Fits, shown(file), shown(j.sdk.System), "", "")
	case file == none || j.sdk.System == none:
		j.add(AxisSystem, Unknown, shown(file), shown(j.sdk.System), "the table of releases does not have both", "mm qnn compat shows the table; --accept system goes on without")
	case file.Major != j.sdk.System.Major || file.Minor > j.sdk.System.Minor:
		j.add(AxisSystem, Not, file.String(), j.sdk.System.String(), "the target's libQnnSystem is older than the context's", "compile it with SDK "+j.t.SDK.String())
	default:
		j.add(AxisSystem, Fits, file.String(), j.sdk.System.String(), "", "")
	}
}

// skel checks the libraries that the target needs.
func (j *judge) skel() {
	need := fmt.Sprintf("libQnnHtp, libQnnSystem, libQnnHtpV%dStub, libQnnHtpV%dSkel", uint32(j.t.Arch), uint32(j.t.Arch))
	if j.t.Arch == 0 {
		j.add(AxisSkel, Unknown, "libraries of an unknown architecture", "", "the target's architecture is unknown", "mm qnn soc ls shows the known chips")
		return
	}
	l := j.t.Libs
	if l == nil {
		j.add(AxisSkel, Unasked, need, "unspecified", "the target's libraries are unspecified", "--libs FOLDER looks through them; --accept skel goes on without")
		return
	}
	missing := ""
	for _, m := range []struct {
		there bool
		name  string
	}{{l.HTP, "libQnnHtp"}, {l.System, "libQnnSystem"}, {slices.Contains(l.Stubs, j.t.Arch), fmt.Sprintf("libQnnHtpV%dStub", uint32(j.t.Arch))}, {slices.Contains(l.Skels, j.t.Arch), fmt.Sprintf("libQnnHtpV%dSkel", uint32(j.t.Arch))}} {
		if !m.there {
			missing += " " + m.name
		}
	}
	build, err := ParseVersion(l.Build)
	switch {
	case missing != "":
		j.add(AxisSkel, Not, need, l.Dir, "missing:"+missing, "take them from the same release of the SDK")
	case err != nil:
		j.add(AxisSkel, Unknown, need, fmt.Sprintf("%s, %d builds", l.Dir, l.Builds), "libQnnHtp does not name its build", "use the libraries of one release")
	case j.t.SDK == nil:
		j.add(AxisSkel, Unknown, need, l.Build, "the target names no SDK", fmt.Sprintf("the libraries are of %d.%d: name it, as in %s@%d.%d", build.Major, build.Minor, j.t.Name, build.Major, build.Minor))
	case build.Major != j.t.SDK.Major || build.Minor != j.t.SDK.Minor:
		j.add(AxisSkel, Not, "libraries of SDK "+j.t.SDK.String(), l.Build, "the folder holds those of another release", "name the release that is there, or bring the other one")
	default:
		j.add(AxisSkel, Fits, need, l.Build, "", "")
	}
}
