# block of @specrun:name@ @specrun:version@
LOADED = True
