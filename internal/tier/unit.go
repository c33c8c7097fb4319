//go:build !integration && !soak

package tier

// Full says that this is a tier that leaves nothing out.
const Full = false
