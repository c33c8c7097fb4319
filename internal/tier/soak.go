//go:build soak

package tier

// soak says that this is the tier that has all the time there is.
const soak = true
