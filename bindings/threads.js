// The glue of modules with threads starts workers by what the door gave it: a page's Worker and Node's are not alike.
var Worker = Module["Worker"];
