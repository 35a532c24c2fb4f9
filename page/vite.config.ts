import { defineConfig } from "vite";

// Fixed names and one file of each sort: the bundle is checked in, and compared with what the sources give.
export default defineConfig({
  base: "/static/",
  build: {
    outDir: "../src/albireo/face/web/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: "page[extname]",
        codeSplitting: false,
      },
    },
  },
});
