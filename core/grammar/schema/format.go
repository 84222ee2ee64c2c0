package schema

// The parts of dates and times (RFC 3339), without the 29th of February, leap
// seconds and years before 1000.
const (
	date  = `[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))`
	time  = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
	octet = `(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	label = `[A-Za-z0-9]{1,15}(?:-[A-Za-z0-9]{1,15}){0,2}` // 47 characters at most
	host  = label + `(?:\.` + label + `){0,4}`
	group = `[0-9a-f]{1,4}` // of an IPv6 address

	// The characters of a URI (RFC 3986) after its authority.
	char    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F][0-9A-F])`
	segment = char + `*`
	after   = `(?:/` + segment + `)*(?:\?(?:` + segment + `[/?]?)*)?(?:#(?:` + segment + `[/?]?)*)?`
	uri     = `[a-z][a-z0-9+.-]{1,15}://` + host + `(?::[1-9][0-9]{0,3})?` + after

	clock    = `T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|[0-9]{1,4}S)`
	duration = `P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)(?:` + clock + `)?|` + clock + `)`
)

const mail = `^[A-Za-z0-9]{1,20}(?:[._+-][A-Za-z0-9]{1,20}){0,2}@` + label + `(?:\.` + label + `){1,3}$`

// formats are patterns of a subset of the texts of each format; other formats are
// annotations. The local part
// of an address has at most 62 characters, of 64, and the address 254 (RFC
// 5321, 4.5.3.1; RFC 3696's erratum 1690): 62+1+4*47+3.
var formats = map[string]string{
	"date":      "^" + date + "$",
	"time":      "^" + time + "$",
	"date-time": "^" + date + "T" + time + "$",
	"uuid":      `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
	"ipv4":      `^` + octet + `(?:\.` + octet + `){3}$`,
	"email":     mail,
	"idn-email": mail,

	"hostname":      "^" + host + "$",
	"idn-hostname":  "^" + host + "$",
	"ipv6":          `^(?:(?:` + group + `:){7}` + group + `|(?:` + group + `:){1,6}:` + group + `|::(?:` + group + `)?)$`,
	"uri":           "^" + uri + "$",
	"iri":           "^" + uri + "$",
	"uri-reference": "^(?:" + uri + "|/(?:" + char + segment + after + ")?)$",
	"iri-reference": "^(?:" + uri + "|/(?:" + char + segment + after + ")?)$",
	"duration":      "^" + duration + "$",
	"json-pointer":  `^(?:/(?:[^/~]|~[01])*)*$`,
}
